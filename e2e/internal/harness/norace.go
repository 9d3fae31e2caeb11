//go:build !race

package harness

// RaceEnabled says that the program is built with the race detector, as the tests are.
const RaceEnabled = false
