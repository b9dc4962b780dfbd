package clock

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1
	timerAbsolute  = 1
	setTimerSlack  = 29 // PR_SET_TIMERSLACK
	shortestMargin = 30_000
	longestMargin  = 1_000_000
)

// How late the kernel wakes, in ns: a running mean, and the mean distance from it. Shared by all goroutines; a lost
// update does no harm.
var lateNs, spreadNs atomic.Int64

func init() {
	lateNs.Store(60_000)
	spreadNs.Store(10_000)
}

// How long before its deadline a sleep asks the kernel to wake it.
func margin() int64 {
	return min(max(lateNs.Load()+3*spreadNs.Load(), shortestMargin), longestMargin)
}

func learn(late int64) {
	mean := lateNs.Load()
	lateNs.Store(mean + (late-mean)/8)
	spread := spreadNs.Load()
	spreadNs.Store(spread + (max(late-mean, mean-late)-spread)/8)
}

// Sleep returns when d has passed, never earlier. It ends within some 100 ns of that unless the thread is kept from
// running; returns at once where d is 0 or less.
func Sleep(d time.Duration) {
	SleepUntil(Now() + int64(d))
}

// SleepUntil returns when Now shows deadline: for loops with a period, without drift.
func SleepUntil(deadline int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if wake := deadline - margin(); wake > Now() {
		// The thread's own slack, 50 us, would be added to every wake-up. A sandbox may refuse: then it is.
		syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
		kernelSleepUntil(wake)
		syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 0, 0)
		learn(Now() - wake)
	}
	for Now() < deadline {
	}
}

func kernelSleepUntil(wake int64) {
	at := syscall.NsecToTimespec(wake)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_CLOCK_NANOSLEEP, clockMonotonic, timerAbsolute,
			uintptr(unsafe.Pointer(&at)), 0, 0, 0)
		// The runtime's own signals interrupt it. Any other refusal leaves the wait to the spin.
		if errno != syscall.EINTR {
			return
		}
	}
}
