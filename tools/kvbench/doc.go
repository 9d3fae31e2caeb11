// Package kvbench is `perigee kvbench`: it computes how a model's KV cache is
// moved, in blocks of which size and how many, from the model's architecture
// and the way it is served, and prints or runs the benchmark that moves as
// much.
//
// # Figures
//
// With L layers, q bytes per value, tensor parallelism tp, pipeline parallelism
// pp, pages of P tokens, N requests of S tokens:
//
//   - the I/O size is the size of one block on one GPU: a page of tokens in one layer
//     (access pattern layer) or in all layers of a pipeline stage (block);
//   - the batch is the number of blocks.
//
// # Two accountings
//
// kvbench, the default, is that of NIXL's KVBench, so that its figures are the
// same; see kvbenchFigures. It divides the cache of all GPUs into blocks of
// one, and other things by which no GPU moves what it says. exact counts what
// the GPU with the most to move really moves; see exactFigures. Both are always
// computed, and each reason why they differ for a model and a config is told.
//
// # Commands
//
// A plan has a command for nixlbench and one for the scenario kvbench of perigee.
// With exact, a model whose layers keep different numbers of tokens may need
// two: a benchmark has one block size.
//
// # Reading order
//
// kvbench.go has the command plan, models.go and curve.go the command models. select.go and config.go find out which
// models and configs are meant, options.go has the flags of a benchmark, help.go leaves some out of the help, layers.go
// has the caches of a model by layer. figures.go computes in both accountings, plan.go makes commands of the figures,
// route.go chooses a backend, and profile.go runs them through tools/run. parity.go compares what an engine moved with
// what a model keeps. output.go writes text, JSON and CSV.
package kvbench
