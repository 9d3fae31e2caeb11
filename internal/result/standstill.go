package result

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Standstills are told by notes of the result, which reports and comparisons show where they show no others.
const (
	stoodStill  = " stood still for "
	standstills = " more standstills of ranks"
)

// StandstillNote says that a rank, in words, stood still for a time in a phase.
func StandstillNote(rank string, took time.Duration, phase string) string {
	return fmt.Sprintf("%s%s%v in phase %s: it was stopped, or its host was; the figures of that time have it in them",
		rank, stoodStill, took.Round(100*time.Millisecond), phase)
}

// MoreStandstills says that there are n more than notes.
func MoreStandstills(n int) string { return fmt.Sprint(n, standstills) }

// Standstills are the notes on ranks that stood still.
func (d *Document) Standstills() []string {
	return slices.DeleteFunc(slices.Clone(d.Notes), func(note string) bool {
		one := strings.HasPrefix(note, "rank ") && strings.Contains(note, stoodStill)
		return !one && !strings.HasSuffix(note, standstills)
	})
}
