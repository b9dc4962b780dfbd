// How late sleeps of Go programs wake: vtare's beside time.Sleep, in turn, and what a reading costs.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"vtare/clock"
)

const rounds = 400

func late(sleep func(time.Duration), d time.Duration) int64 {
	deadline := clock.Now() + int64(d)
	sleep(d)
	return clock.Now() - deadline
}

func figures(late []int64) (median, p99 int64) {
	slices.Sort(late)
	return late[len(late)/2], late[len(late)*99/100]
}

func cost(read func()) float64 {
	least := time.Duration(1 << 62)
	for range 50 {
		begun := clock.Now()
		for range 10_000 {
			read()
		}
		least = min(least, time.Duration(clock.Now()-begun))
	}
	return float64(least) / 10_000
}

// figure records a figure for the document that bench/figures.py prints.
func figure(name string, value float64, unit string) {
	if path := os.Getenv("VTARE_BENCH_FIGURES"); path != "" {
		line, err := json.Marshal(map[string]any{"name": name, "unit": unit, "value": value, "interval": nil})
		if err != nil {
			panic(err)
		}
		out, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			panic(err)
		}
		defer out.Close()
		fmt.Fprintf(out, "%s\n", line)
	}
}

func main() {
	own, std := cost(func() { clock.Now() }), cost(func() { time.Now() })
	figure("one reading, clock.Now", own, "ns")
	figure("one reading, time.Now", std, "ns")
	fmt.Printf("one reading: clock.Now %.1f ns, time.Now %.1f ns, ratio %.2f\n\n", own, std, own/std)
	fmt.Printf("how late sleeps wake, %d of each, in turn\n", rounds)
	fmt.Printf("  %10s  %22s  %22s  %14s\n", "", "clock.Sleep", "time.Sleep", "time / clock")
	fmt.Printf("  %10s  %10s  %10s  %10s  %10s  %14s\n", "asked", "median", "p99", "median", "p99", "median")
	reached := false
	for _, microseconds := range []time.Duration{50, 200, 1000, 5000} {
		d := microseconds * time.Microsecond
		var ours, theirs []int64
		for range rounds {
			ours = append(ours, late(clock.Sleep, d))
			theirs = append(theirs, late(time.Sleep, d))
		}
		median, p99 := figures(ours)
		stdMedian, stdP99 := figures(theirs)
		for name, ns := range map[string]int64{"clock.Sleep/median": median, "clock.Sleep/p99": p99,
			"time.Sleep/median": stdMedian, "time.Sleep/p99": stdP99} {
			figure(fmt.Sprintf("late after %s, %s", d, name), float64(ns), "ns")
		}
		show := func(ns int64) string { return time.Duration(ns).String() }
		fmt.Printf("  %10s  %10s  %10s  %10s  %10s  %13.0fx\n", d, show(median), show(p99), show(stdMedian),
			show(stdP99), float64(stdMedian)/float64(max(median, 1)))
		if d == 50*time.Microsecond {
			reached = median < 1_000
		}
	}
	verdict := "MISSED "
	if reached {
		verdict = "reached"
	}
	fmt.Printf("  %s  a sleep of 50 us ends less than 1 us late at the median\n", verdict)
}
