// Package matgen is `perigee matgen`: it makes the workload of a disaggregated
// inference system, one traffic matrix per batch of requests, for
// `sequential-ct-perftest`.
//
// # The system
//
// Prefill ranks come first, then decode ranks; there are nodes x ppn of each.
// Consecutive ranks form workers: tp x cp ranks on the prefill side, tp ranks
// on the decode side. Inside a prefill worker, rank c*tp + t is TP rank t of
// part c of the sequence. Requests are drawn ([Options]), put into batches,
// and batch k moves from prefill worker k mod P to decode worker k mod D.
//
// # Who sends what to which rank
//
// Tensor parallelism cuts the KV heads: of tp ranks, rank t holds the share
// [t/tp, (t+1)/tp) of them. Context parallelism cuts the tokens: part c holds
// an equal share of every sequence, for the heads of its TP rank. So decode
// rank j receives from every part c, and from those TP ranks t whose shares
// of the heads meet its own: one of them if prefill tp <= decode tp, otherwise
// prefill tp / decode tp of them. The messages of layers that are alike have the
// same size but for a byte, and their sum is exactly the KV bytes of the batch
// times copies.
//
// # Ranks that hold the same cache
//
// With more ranks than KV heads, tp / heads ranks hold the same head whole.
// With MLA (deepseek-r1) all tp ranks hold the whole latent, which is not
// divided by tp. [perigee/internal/model.Move] decides who receives what, for
// every command. Where several decode ranks need the same bytes, --kv-replicas
// says what they are sent:
//
//   - full (the default): each all it needs, as engines do. The sum of a matrix
//     is n times the KV bytes. Of several prefill ranks that hold it, one sends.
//   - split: each of n such ranks another n-th of what they need. Every byte
//     crosses the network once, and the sum of a matrix is the KV bytes of its
//     batch. The decode worker has to gather the rest from its own ranks, over
//     NVLink for example, which is not in the matrix. Prefill ranks that hold
//     the same share the sending evenly.
//
// # Sleeps
//
// sleep_before_launch_sec is the time of the batch's prefill, a lower bound
// for models with a wide MLP and a rough figure for mixtures of experts; the
// formula stands in metadata.yaml. With a trace, the wait for the arrival of
// the last request of the batch comes on top.
//
// # Files
//
// A folder with matrix_<k>.txt, whose cells are whole bytes (of more than 1024
// ranks in the sparse form, unless --dense is given), and metadata.yaml, which
// is written so that the folder is complete or not there.
//
// --compat makes the files of the original generator instead, whose rules,
// presets and rounding differ.
//
// # Reading order
//
// options.go has what can be asked for, draws.go draws the requests, layout.go numbers ranks and workers. plan.go
// makes a [Workload] of them: batches, and a matrix for each by parts.go. compat.go fills it as the original does.
// write.go writes the folder, summary.go prints what is in it, warn.go says what is odd about it.
package matgen
