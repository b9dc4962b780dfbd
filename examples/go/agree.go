// Paces a loop with vtare's clock and prints how late it woke, and how far UTC is known. Ends with 1 where a wait ended
// early.
package main

import (
	"fmt"
	"os"
	"time"

	"vtare/clock"
)

func main() {
	latest := int64(0)
	next := clock.Now()
	for range 10 {
		next += int64(200 * time.Microsecond)
		clock.SleepUntil(next)
		late := clock.Now() - next
		if late < 0 {
			fmt.Printf("a wait ended %d ns early\n", -late)
			os.Exit(1)
		}
		latest = max(latest, late)
	}
	fmt.Printf("10 periods of 200 us, at most %s late\n", time.Duration(latest))
	utc := clock.UTCNow()
	if utc.Latest.IsZero() {
		fmt.Println("UTC: no NTP daemon bounds it here")
		return
	}
	worth := "as the kernel is given it"
	if utc.Status == clock.Unknown {
		worth = "if this guest was not stopped since the daemon's last measurement"
	}
	fmt.Printf("UTC: %s to %s, %s\n", utc.Earliest.Format(time.RFC3339Nano), utc.Latest.Format(time.RFC3339Nano), worth)
}
