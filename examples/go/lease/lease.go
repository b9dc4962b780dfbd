// A lease and commit-wait by the page that `vtare clock --witness A,B,C` keeps. Ends with 1 where the lease had ended
// before the act was confirmed, with 2 where UTC is not confirmed.
package main

import (
	"fmt"
	"os"
	"time"

	"vtare/clock"
)

const patience = 2 * time.Second

func confirmed(page *clock.Page) clock.UTCInterval {
	utc, err := page.Confirmed(patience)
	if err != nil {
		fail(err)
	}
	return utc
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

// commit is a time that has passed when it returns, and had not come when it was called.
func commit(page *clock.Page) time.Time {
	at := confirmed(page).Latest
	for !confirmed(page).Earliest.After(at) {
	}
	return at
}

// actedWithin is whether an act that is done by now was done within the lease: looking before it proves nothing.
func actedWithin(page *clock.Page, leaseEnds time.Time) bool {
	return confirmed(page).Latest.Before(leaseEnds)
}

func main() {
	page, err := clock.OpenPage()
	if err != nil {
		fail(err)
	}
	now := confirmed(page)
	fmt.Printf("UTC to %s\n", now.Latest.Sub(now.Earliest))
	fmt.Printf("committed at %d\n", commit(page).UnixNano())
	if !actedWithin(page, now.Latest.Add(5*time.Second)) {
		fmt.Println("the lease had ended: take the act back")
		os.Exit(1)
	}
	fmt.Println("the lease held")
}
