// Package e2e tests perigee as its users meet it: the built program, real
// processes, real files, both engines.
//
// The tests that move bytes with NIXL need its library; NIXL_LIBRARY names it
// (make test sets it). Without it they fail.
package e2e

import (
	"os"
	"testing"

	"perigee/e2e/internal/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m))
}
