//go:build !unsealed

package wire

// sealed says that frames have tags. Only the benchmark of what they cost (e2e/bench/barrier) builds a program
// without.
const sealed = true
