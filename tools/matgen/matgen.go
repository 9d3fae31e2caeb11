package matgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/model"
)

// Cmd is `perigee matgen`.
type Cmd struct {
	Generate GenerateCmd `cmd:"" help:"Make the traffic matrices of an inference workload."`
}

// GenerateCmd is `perigee matgen generate`.
type GenerateCmd struct {
	Prefill model.Workers `placeholder:"NxTPk" group:"System" help:"Prefill workers: 2xTP4 are 2 of tensor parallelism 4."`
	Decode  model.Workers `placeholder:"NxTPk" group:"System" help:"Decode workers, likewise."`
	Options

	ResultsDir string `name:"output" short:"o" aliases:"results-dir" placeholder:"DIR" group:"Files" help:"Folder for the files; default matrices_<ranks>ranks."`
	Force      bool   `group:"Files" help:"Write even if the folder holds other files: it is renamed to DIR.old."`
	DryRun     bool   `group:"Files" help:"Print the summary and write nothing."`
}

// sides turns --prefill and --decode into the original's options: nodes of --ppn ranks or, where these do not fill
// them, of the next fewer that do.
func (c *GenerateCmd) sides() error {
	o := &c.Options
	switch {
	case c.Prefill.N+c.Decode.N == 0 && o.NumPrefillNodes*o.NumDecodeNodes > 0:
		return nil
	case c.Prefill.N*c.Decode.N == 0 || o.NumPrefillNodes+o.NumDecodeNodes > 0 || o.PrefillTP*o.DecodeTP > 1:
		return usage("wanted --prefill NxTPk and --decode NxTPk, or, instead of both, --num-prefill-nodes and --num-decode-nodes").
			WithHint("perigee matgen generate --help")
	}
	o.PrefillTP, o.DecodeTP = c.Prefill.TP, c.Decode.TP
	prefill := c.Prefill.Ranks() * o.PrefillCP * max(o.PrefillPP, len(o.PrefillPPLayers))
	decode := c.Decode.Ranks() * o.DecodeCP * max(o.DecodePP, len(o.DecodePPLayers))
	for prefill%o.PPN+decode%o.PPN > 0 {
		o.PPN--
	}
	o.NumPrefillNodes, o.NumDecodeNodes = prefill/o.PPN, decode/o.PPN
	return nil
}

// Advise names a model that does not exist beside another mistake on the command line.
func (c *GenerateCmd) Advise(mistake error) error {
	o := c.Options
	if o.Model == "" && o.ModelFile == "" {
		return mistake
	}
	o.ISLList, o.Trace = "", "" // are no part of the question
	in, err := o.Load()
	if err == nil {
		_, err = o.architecture(in.Model)
	}
	if err != nil {
		return fmt.Errorf("%w; and %w", mistake, err)
	}
	return mistake
}

// Run makes the workload and prints its summary.
func (c *GenerateCmd) Run(streams cli.Streams) error {
	if err := c.sides(); err != nil {
		return c.Advise(err)
	}
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
	folder := cmp.Or(c.ResultsDir, fmt.Sprintf("matrices_%dranks", w.World()))
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
			WithHint("choose another --output, or --force to rename that folder")
	}
	return aside, err
}
