// Package mirror holds Go twins of the TLA+ modules of spec/tla: the same
// states and actions a second time, action by action under the same names.
//
// A twin reads the configuration file that TLC reads, visits the same states,
// and has to find as many of them, or the same violation as near. So a change
// of a module or of its constants cannot pass unnoticed where no TLC is at
// hand, and two people's reading of one rule is compared state by state.
//
// Not covered: temporal properties, which need the graph and not only its
// states. TLC alone checks those.
package mirror
