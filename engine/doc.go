// Package engine publishes events inside the caller's own database
// transaction and runs every subscribed handler at least once, in order per
// key, with attempts charged honestly.
package engine
