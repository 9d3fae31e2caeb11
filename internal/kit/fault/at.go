package fault

import (
	"fmt"
	"strings"

	"perigee/internal/kit/plaintext"
)

// At writes the cause of a failure behind the rank, its host and its phase, as far as
// they are known; rank is -1 for a failure of no rank. The scenario has named the phase: it stays in its line.
func At(rank int, host, phase, cause string) string {
	if rank < 0 {
		return cause
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rank %d", rank)
	if host != "" {
		fmt.Fprintf(&b, " on %s", plaintext.Escape(host))
	}
	if phase != "" {
		fmt.Fprintf(&b, ", phase %s", plaintext.Escape(phase))
	}
	return b.String() + ": " + cause
}
