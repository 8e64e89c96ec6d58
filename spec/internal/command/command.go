// Package command is what the programs of spec have in common: flags, an end
// when interrupted, and one sentence for what could not be done.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	Expected   = 0 // all is as it should be
	Unexpected = 1 // something is not
	Unable     = 2 // bad usage, or it could not be found out
)

// Main runs a program and exits with its code. An interrupt ends its context.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Flags are the flags of a program.
type Flags struct {
	*flag.FlagSet
	usage  string // what follows the program's name on a command line
	stderr io.Writer
}

// New returns the flags of the program spec/name, none yet.
func New(name, usage string, stderr io.Writer) *Flags {
	f := &Flags{flag.NewFlagSet(name, flag.ContinueOnError), usage, stderr}
	f.SetOutput(io.Discard)
	return f
}

// Read parses the arguments. When ok is false the program ends with the code:
// the usage was asked for, or a flag is wrong.
func (f *Flags) Read(args []string) (code int, ok bool) {
	switch err := f.Parse(args); {
	case err == nil:
		return Expected, true
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(f.stderr, "usage: go run ./spec/%s %s\n", f.Name(), f.usage)
		f.SetOutput(f.stderr)
		f.PrintDefaults()
		return Expected, false
	default:
		return f.Unable(fmt.Errorf("%w; -h lists the flags", err)), false
	}
}

// Unable prints one sentence and returns the exit code of a run that could not
// be.
func (f *Flags) Unable(err error) int {
	fmt.Fprintf(f.stderr, "%s: %v\n", f.Name(), err)
	return Unable
}
