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
// prefill tp / decode tp of them. All messages of a matrix have the same size
// but for a byte, and their sum is exactly the KV bytes of the batch.
//
// # Ranks that hold the same cache
//
// With more ranks than KV heads, tp / heads ranks hold the same head whole.
// With MLA (deepseek-r1) all tp ranks hold the whole latent, which is not
// divided by tp. Where several prefill ranks hold what a decode rank needs,
// they share the sending evenly. Where several decode ranks need the same
// bytes, --kv-replicas decides:
//
//   - split (the default): each of n such ranks is sent another n-th of what
//     they need. Every byte crosses the network once, and the sum of a matrix
//     is the KV bytes of its batch. The decode worker has to gather the rest
//     from its own ranks, over NVLink for example, which is not in the matrix.
//   - full: each is sent all it needs. The sum of a matrix is n times the KV
//     bytes. Engines whose ranks fetch their caches independently do this.
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
package matgen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
)

// Cmd is `perigee matgen`.
type Cmd struct {
	Generate GenerateCmd `cmd:"" help:"Make the traffic matrices of an inference workload."`
}

// GenerateCmd is `perigee matgen generate`.
type GenerateCmd struct {
	Options

	ResultsDir string `placeholder:"DIR" group:"Files" help:"Folder for the files; default matrices_<ranks>ranks."`
	Force      bool   `group:"Files" help:"Write even if the folder holds other files: it is renamed to DIR.old."`
	DryRun     bool   `group:"Files" help:"Print the summary and write nothing."`
}

// Run makes the workload and prints its summary.
func (c *GenerateCmd) Run(streams cli.Streams) error {
	if err := c.Check(); err != nil { // before any file is read
		return err
	}
	in, err := c.Load()
	if err != nil {
		return err
	}
	w, err := Plan(c.Options, in)
	if err != nil {
		return err
	}
	folder := c.ResultsDir
	if folder == "" {
		folder = fmt.Sprintf("matrices_%dranks", w.World())
	}
	if c.DryRun {
		return w.writeSummary(streams.Out, "nothing written (--dry-run)")
	}
	aside, err := c.write(w, folder)
	if err != nil {
		return err
	}
	written := "written to " + folder
	if aside != "" {
		written += "; what was there is now " + aside
	}
	return w.writeSummary(streams.Out, written)
}

// write replaces an earlier output, and anything else only if it may.
func (c *GenerateCmd) write(w *Workload, folder string) (aside string, err error) {
	old := file.Refuse
	earlier, err := earlierOutput(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fault.New(fault.Output, "%w", err)
	case earlier:
		old = file.Discard
	case c.Force:
		old = file.SetAside
	}
	ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends this process at once
	aside, err = w.Write(ctx, folder, old)
	if errors.Is(err, file.ErrNotEmpty) {
		return "", fault.New(fault.Output, "cannot write %s: it holds files that matgen did not write", folder).
			WithHint("choose another --results-dir, or --force to rename that folder")
	}
	return aside, err
}
