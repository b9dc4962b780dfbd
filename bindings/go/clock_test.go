package clock

import (
	"fmt"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// CLOCK_MONOTONIC by a system call.
func kernelNow(t *testing.T) int64 {
	var at syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return at.Nano()
}

func TestReadingsLieBetweenTheKernelsBeforeAndAfter(t *testing.T) {
	for range 1000 {
		before, ours, after := kernelNow(t), Now(), kernelNow(t)
		if ours < before || ours > after {
			t.Fatalf("got %d, want %d to %d", ours, before, after)
		}
	}
}

func TestNoSleepEndsEarly(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, 1, 50 * time.Microsecond, 3 * time.Millisecond} {
		for range 20 {
			deadline := Now() + int64(d)
			Sleep(d)
			if now := Now(); now < deadline {
				t.Fatalf("a sleep of %s ended %d ns early", d, deadline-now)
			}
		}
	}
}

func TestSleepsOfManyGoroutinesEnd(t *testing.T) {
	done := make(chan bool)
	for range 50 {
		go func() { Sleep(2 * time.Millisecond); done <- true }()
	}
	for range 50 {
		<-done
	}
}

func TestTheMarginFollowsTheKernelsLatenessWithinItsBounds(t *testing.T) {
	defer func(late, spread int64) { lateNs.Store(late); spreadNs.Store(spread) }(lateNs.Load(), spreadNs.Load())
	for range 200 {
		learn(400_000)
	}
	if found := margin(); found < 390_000 || found > 420_000 {
		t.Errorf("got a margin of %d ns, want about 400,000", found)
	}
	for range 200 {
		learn(80_000_000)
	}
	if found := margin(); found != longestMargin {
		t.Errorf("got a margin of %d ns, want %d", found, longestMargin)
	}
}

func TestAnIntervalIsWhatTheKernelStatesAndItsDrift(t *testing.T) {
	wall := time.Unix(1_800_000_000, 0)
	stated := syscall.Timex{Maxerror: 2000, Tolerance: 500 << 16}
	found := interval(wall, time.Microsecond, stateOK, stated, true)
	bound := 2*time.Millisecond + 500*time.Microsecond + time.Microsecond
	before, after := wall.Sub(found.Earliest), found.Latest.Sub(wall)
	if found.Status != Synchronized || before != bound || after != bound+time.Microsecond {
		t.Errorf("found %+v", found)
	}
	if guest := interval(wall, 0, stateOK, stated, false); guest.Status != Unknown || guest.Latest.IsZero() {
		t.Errorf("a guest: found %+v", guest)
	}
	stated.Status = statusLeap
	if leap := interval(wall, 0, stateOK, stated, true); leap.Latest.Sub(wall) < time.Second {
		t.Errorf("a leap second: found %+v", leap)
	}
	stated.Status = statusUnsynchronized
	if none := interval(wall, 0, stateOK, stated, true); none != (UTCInterval{Status: Unknown}) {
		t.Errorf("without a daemon: found %+v", none)
	}
}

func TestUTCHasAnAnswerHere(t *testing.T) {
	if found := UTCNow(); found.Latest.Before(found.Earliest) {
		t.Errorf("found %+v", found)
	}
}

func ExampleSleepUntil() {
	period := int64(time.Millisecond)
	next := Now()
	for range 3 {
		next += period
		SleepUntil(next)
	}
	fmt.Println(Now() >= next)
	// Output: true
}
