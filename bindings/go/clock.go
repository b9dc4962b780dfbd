// Package clock reads CLOCK_MONOTONIC, ends sleeps when they should end, and states how far UTC is known, on Linux
// and without cgo.
//
// Go's time.Sleep wakes about 1 ms late there, however short the sleep: the runtime waits in epoll, whose timeouts
// are whole milliseconds. Sleep here asks the kernel itself for all but the end, and spins the rest.
//
// A sleeping goroutine holds its thread until it wakes (runtime.LockOSThread, released before Sleep returns), and the
// spin, 1 ms at most, takes a CPU. Few goroutines should sleep like that at a time: fewer than GOMAXPROCS.
package clock

import (
	_ "unsafe" // for go:linkname
)

// The runtime's own reading of CLOCK_MONOTONIC, through the vDSO. The runtime keeps it for packages that link to it.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// Now is CLOCK_MONOTONIC in ns: it compares with readings of other processes on this machine, as time.Now does not.
func Now() int64 { return nanotime() }
