//go:build !unsealed

package wire

// sealed says that frames have tags. Only the benchmark of what they cost builds itself without (internal/bench/barrier).
const sealed = true
