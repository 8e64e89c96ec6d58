//go:build unix

package engine

import (
	"syscall"
	"time"
)

func init() {
	processorTime = func() time.Duration {
		var used syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
			return 0
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
}
