package clock

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	second  = int64(time.Second)
	million = int64(time.Millisecond)
)

// A page whose round ended at `at`, by words as crates/clock/src/utc_page.rs has them.
func written(t *testing.T, begun, at, until int64, sequence, status uint64, mode os.FileMode) string {
	t.Helper()
	bytes := make([]byte, pageSize)
	permille := uint64(1<<32) / 1000
	words := []uint64{pageMagic, sequence, uint64(begun), uint64(at), uint64(7 * second), uint64(7*second + million),
		permille, permille, uint64(until), status, 3, 9}
	for at, word := range words {
		binary.NativeEndian.PutUint64(bytes[8*at:], word)
	}
	path := filepath.Join(t.TempDir(), "utc")
	if err := os.WriteFile(path, bytes, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func opened(t *testing.T, path string) (*Page, error) {
	t.Helper()
	t.Setenv(pageVariable, path)
	return OpenPage()
}

func TestAPageIsReadWithItsRatesAndOnlyWhileItIsVouchedFor(t *testing.T) {
	now := Now()
	for _, one := range []struct {
		begun, at, until int64
		sequence, status uint64
		want             UTCStatus
	}{
		{now - 2*second, now - second, now + 60*second, 4, 0, Synchronized},
		{now - 2*second, now - second, now - 1, 4, 0, Unknown},
		{now + 60*second, now + 60*second, now + 61*second, 4, 0, Disrupted},
		{now - 2*second, now - second, now + 60*second, 4, 2, Disrupted},
		{now - 2*second, now - second, now + 60*second, 4, 3, Unknown},
		{now - 2*second, now - second, now + 60*second, 5, 0, Unknown},
	} {
		page, err := opened(t, written(t, one.begun, one.at, one.until, one.sequence, one.status, 0o644))
		if err != nil {
			t.Fatal(err)
		}
		utc := page.UTC()
		passed := time.Duration(Now() - one.at)
		if utc.Status != one.want {
			t.Errorf("got status %d of %+v", utc.Status, one)
		}
		if utc.Status != Synchronized {
			if !utc.Latest.IsZero() {
				t.Errorf("got an end, %s, of %+v", utc.Latest, one)
			}
			continue
		}
		// A second passed, of which 1 ms may be wrong in either direction.
		low, high := time.Unix(7, 999*million-2*counterStep), time.Unix(7, 2*million).Add(passed)
		if utc.Earliest.Before(low) || !utc.Earliest.Before(time.Unix(7, 0).Add(passed)) ||
			utc.Latest.Before(time.Unix(8, 2*million)) || utc.Latest.After(high.Add(time.Duration(passed/1000))) {
			t.Errorf("got %s to %s after %s", utc.Earliest, utc.Latest, passed)
		}
	}
}

func TestARoundThatBeganBeforeTheCallConfirmsNothing(t *testing.T) {
	now := Now()
	page, err := opened(t, written(t, now-million, now, now+60*second, 4, 0, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := page.Confirmed(20 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "not confirmed") {
		t.Errorf("got %v", err)
	}
	// One that begins later does; its ends do not move.
	page, err = opened(t, written(t, now+10*second, now+11*second, now+60*second, 4, 0, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	utc, err := page.Confirmed(time.Second)
	if err != nil || utc.Earliest != time.Unix(7, 0) || utc.Latest != time.Unix(7, million) {
		t.Errorf("got %v, %v", utc, err)
	}
}

func TestPagesThatOthersMayWriteLinksAndShortFilesAreRefused(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short")
	link := filepath.Join(t.TempDir(), "link")
	good := written(t, 0, 0, 1, 4, 0, 0o644)
	if err := os.WriteFile(short, []byte("short"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{short, link, filepath.Join(t.TempDir(), "none"), written(t, 0, 0, 1, 4, 0, 0o666)} {
		if _, err := opened(t, path); err == nil || !strings.Contains(err.Error(), "vtare clock --witness") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
