package clock

import (
	"bytes"
	"os"
	"sync"
	"syscall"
	"time"
)

// UTCStatus is what an interval of UTC is worth.
type UTCStatus int

const (
	// Synchronized: UTC lies in the interval, as the kernel is given it by its NTP daemon.
	Synchronized UTCStatus = iota
	// Unknown: nothing bounds UTC (the interval is the zero value); or this may be a guest whose stops stay unseen,
	// and the interval holds only if it was not stopped since the daemon's last measurement.
	Unknown
	// Disrupted: time on this machine was disrupted, and nothing is known until the next round of `vtare clock`.
	Disrupted
)

// UTCInterval holds UTC if its status states so.
type UTCInterval struct {
	Earliest, Latest time.Time
	Status           UTCStatus
}

const (
	statusUnsynchronized = 0x40 // STA_UNSYNC
	statusLeap           = 0x30 // STA_INS, STA_DEL
	stateError           = 5    // TIME_ERROR
	stateOK              = 0    // TIME_OK
	mostError            = 16 * time.Second
)

var bareMetal = sync.OnceValue(func() bool {
	facts, err := os.ReadFile("/proc/cpuinfo")
	// Where a hypervisor is below, CPUs of x86-64 have this flag; others do not report one.
	return err == nil && bytes.Contains(facts, []byte("\nflags")) && !bytes.Contains(facts, []byte(" hypervisor"))
})

// UTCNow asks the kernel (adjtimex) what its NTP daemon states of CLOCK_REALTIME. It keeps nothing between two calls:
// disruptions are seen by the C library only (vtare_now_utc_interval).
func UTCNow() UTCInterval {
	for range 8 {
		before := Now()
		wall := time.Now()
		var found syscall.Timex
		state, err := syscall.Adjtimex(&found)
		if err != nil {
			break
		}
		took := time.Duration(Now() - before)
		stepped := time.Now().Round(0).Sub(wall.Round(0)) - took
		if stepped.Abs() > time.Millisecond {
			continue // The clock was stepped, or this thread did not run, between the two.
		}
		return interval(wall.Round(0), took, state, found, bareMetal())
	}
	return UTCInterval{Status: Unknown}
}

func interval(wall time.Time, took time.Duration, state int, found syscall.Timex, bareMetal bool) UTCInterval {
	bound := time.Duration(found.Maxerror) * time.Microsecond
	if state == stateError || found.Status&statusUnsynchronized != 0 || bound >= mostError {
		return UTCInterval{Status: Unknown}
	}
	// The kernel adds a second's drift to maxerror once a second only. Tolerance is in 2^-16 ppm.
	bound += time.Duration(float64(found.Tolerance)/65536*1e-6*1e9) + took
	if found.Status&statusLeap != 0 || state != stateOK {
		bound += time.Second
	}
	status := Unknown
	if bareMetal {
		status = Synchronized
	}
	return UTCInterval{Earliest: wall.Add(-bound), Latest: wall.Add(took + bound), Status: status}
}
