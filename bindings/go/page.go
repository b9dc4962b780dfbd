package clock

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	usualPage    = "/run/vtare/utc"
	pageVariable = "VTARE_UTC_PAGE"
	pageSize     = 4096
	pageMagic    = 0x7674617265555401 // "vtareUT" and the version of the page
	pageTries    = 64
	othersWrite  = 0o022
	heartbeat    = 100 * time.Millisecond
	counterStep  = 1_000     // ns: the step of the coarsest counter that a clock is read from
	clocksApart  = 1_000_000 // ns: how far the daemon's readings of CLOCK_MONOTONIC are from Now at most
)

// Page is UTC as `vtare clock --witness A,B,C` keeps it for all programs of this machine.
type Page struct {
	words *[12]uint64
}

// A line of the page: bounds of UTC at a time of this machine's clock.
type line struct {
	begun, at        int64
	earliest, latest int64
	slower, faster   uint64 // rates, as fractions of 2^32
	until            int64
	status           UTCStatus
}

// OpenPage opens the page of `vtare clock`: the file VTARE_UTC_PAGE, else /run/vtare/utc. It stays mapped as long as
// the process.
func OpenPage() (*Page, error) {
	path := os.Getenv(pageVariable)
	if path == "" {
		path = usualPage
	}
	refuse := func(why error) (*Page, error) {
		return nil, fmt.Errorf("cannot read the page %s: %w. Run `vtare clock --witness A,B,C`, or set %s to its page",
			path, why, pageVariable)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return refuse(errors.Unwrap(err))
	}
	defer file.Close()
	var facts syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &facts); err != nil {
		return refuse(err)
	}
	if facts.Mode&syscall.S_IFMT != syscall.S_IFREG || facts.Size < pageSize {
		return refuse(errors.New("it is no page of vtare clock"))
	}
	if facts.Uid != 0 && int(facts.Uid) != os.Geteuid() || facts.Mode&othersWrite != 0 {
		return refuse(errors.New("others than root and this user may write it"))
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, pageSize, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return refuse(err)
	}
	return &Page{(*[12]uint64)(unsafe.Pointer(unsafe.SliceData(memory)))}, nil
}

// The line, and whether there is one.
func (page *Page) load() (line, bool) {
	for range pageTries {
		sequence := atomic.LoadUint64(&page.words[1])
		word := func(at int) uint64 { return atomic.LoadUint64(&page.words[at]) }
		read := line{int64(word(2)), int64(word(3)), int64(word(4)), int64(word(5)), word(6), word(7), int64(word(8)),
			Unknown}
		switch word(9) {
		case 0:
			read.status = Synchronized
		case 2:
			read.status = Disrupted
		}
		known := word(0) == pageMagic
		if sequence&1 == 0 && atomic.LoadUint64(&page.words[1]) == sequence {
			return read, known
		}
	}
	return line{status: Unknown}, false
}

// UTC is UTC now: no system call, no lock. A wrong interval ends a heartbeat (100 ms) and a round trip after this
// machine was stopped, moved or restored: use Confirmed where that is too late.
func (page *Page) UTC() UTCInterval {
	read, ok := page.load()
	now := Now()
	switch {
	case !ok || read.status != Synchronized:
		return UTCInterval{Status: read.status}
	case now < read.begun: // The clock was set back, which no round has seen yet.
		return UTCInterval{Status: Disrupted}
	case now >= read.until:
		return UTCInterval{Status: Unknown}
	}
	return read.interval(now)
}

func (read line) interval(now int64) UTCInterval {
	age := max(now-read.at, 0)
	part := func(fraction uint64) int64 {
		high, low := bits.Mul64(uint64(age), fraction)
		return int64(high<<32 | low>>32)
	}
	earliest := read.earliest + age - part(read.slower) - counterStep
	if now < read.at { // A reading from just before the round ended.
		earliest -= (read.at - now) * 2
	}
	latest := read.latest + age + part(read.faster) + counterStep
	return UTCInterval{time.Unix(0, earliest), time.Unix(0, latest), Synchronized}
}

// Confirmed waits for a round of the daemon that began after the call: UTC was in the interval at an instant between
// the call and the return, also where this machine was stopped, moved or restored before or meanwhile. That takes 100
// to 200 ms; the C library asks the witnesses itself, in one round trip.
func (page *Page) Confirmed(limit time.Duration) (UTCInterval, error) {
	begun := Now()
	for {
		read, ok := page.load()
		if ok && read.status == Synchronized && read.begun > begun+clocksApart {
			// The ends are those of the round: neither needs this machine's clock.
			return UTCInterval{time.Unix(0, read.earliest), time.Unix(0, read.latest), Synchronized}, nil
		}
		if Now()-begun >= int64(limit) {
			return UTCInterval{Status: read.status}, fmt.Errorf(
				"UTC is not confirmed: no round of `vtare clock` ended well within %s: check that it runs and that its "+
					"witnesses answer", limit)
		}
		time.Sleep(heartbeat / 20)
	}
}
