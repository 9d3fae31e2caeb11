//go:build !race

package e2e

// raceEnabled says that the program is to be built as this test is.
const raceEnabled = false
