package cli

import (
	"fmt"
	"regexp"
	"testing"

	"perigee/internal/kit/fault"
)

// A defect ends the command with an error that names the place.
func TestDefect(t *testing.T) {
	err := Guarded(func() error {
		var none []int
		return fmt.Errorf("%d", none[0])
	})
	if fault.KindOf(err) != fault.Internal || fault.HintOf(err) == "" ||
		!regexp.MustCompile(`^panic: .*index out of range .*, at defect_test.go:\d+$`).MatchString(err.Error()) {
		t.Error(err)
	}
}
