package kvbench

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
)

// Cmd is `perigee kvbench`.
type Cmd struct {
	Plan      PlanCmd      `cmd:"" help:"Print the nixlbench command, and the perigee command, that move a model's KV cache."`
	Profile   ProfileCmd   `cmd:"" help:"Run these benchmarks here."`
	Nixlbench NixlbenchCmd `cmd:"" name:"nixlbench" help:"Run nixlbench's command line here: a link to perigee named nixlbench does the same."`
	KVCache   KVCacheCmd   `cmd:"" name:"kvcache" help:"Print the number and the size of the blocks of a KV cache."`
	IOSize    IOSizeCmd    `cmd:"" name:"iosize" help:"Print the bytes of one token in one block."`
	Models    ModelsCmd    `cmd:"" help:"List the shipped models and model configs, or print one."`
	Parity    ParityCmd    `cmd:"" help:"Compare the bytes that an engine's metrics say it has moved with those that its model keeps."`
}

// Help adds to the commands in perigee kvbench --help.
func (Cmd) Help() string {
	return "perigee kvbench models lists what --model and --model_config know by name. See docs/kvbench.md."
}

// PlanCmd is `perigee kvbench plan`.
type PlanCmd struct {
	Selection
	cli.Format
	Bench
}

// Help adds to the flags in perigee kvbench plan --help.
func (PlanCmd) Help() string {
	return example("plan --model llama3.1-8b --model_config block-tp8-pp2 --isl 8000 --num_requests 4")
}

// example ends the help of a command.
func example(words string) string {
	return "Example: perigee kvbench " + words + "\n\nSee docs/kvbench.md."
}

// Run prints the plan of every config.
func (c *PlanCmd) Run(streams cli.Streams) error {
	if err := c.Bench.precheck(); err != nil {
		return err
	}
	var rows []fields
	err := c.each(streams, func(p *BlockPlan) error {
		if err := p.command(c.Bench); err != nil {
			return err
		}
		if c.Format.Format == "text" {
			return p.writeText(streams.Out)
		}
		rows = append(rows, p.rows()...)
		return nil
	})
	return finish(streams, c.Format.Format, rows, err)
}

// precheck refuses what is wrong whatever the config.
func (b Bench) precheck() error {
	if err := b.check(); err != nil {
		return err
	}
	_, err := route(b)
	return err
}

// remarks are the warnings of all plans of a command, each once, with the configs that it is about.
type remarks struct {
	accounting string // the other one
	tried      int
	notes      []string // of the model
	order      []remark
	texts      map[remark][]string // without repetitions
	exact      []string            // what one GPU moves where that is not what the command says
	configs    map[remark][]string
}

// remark is a warning. Those that differ only in their numbers count as one; the text is the first of them.
type remark struct {
	alike      string // the text without its numbers
	difference bool   // between the two accountings
}

var numbers = regexp.MustCompile(`[0-9]+`)

// add collects the remarks of a plan. Remarks that differ only in their numbers are printed once, with the configs
// that they are about: a sweep over all models makes thousands.
func (r *remarks) add(p *BlockPlan) {
	r.tried++
	r.accounting = accountingExact
	if p.Accounting == accountingExact {
		r.accounting = accountingKVBench
	}
	if r.configs == nil {
		r.configs, r.texts = map[remark][]string{}, map[remark][]string{}
	}
	keep := func(text string, difference bool) {
		m := remark{numbers.ReplaceAllString(text, "0"), difference}
		if !slices.Contains(r.texts[m], text) {
			r.texts[m] = append(r.texts[m], text)
		}
		if r.configs[m] == nil {
			r.order = append(r.order, m)
		}
		if !slices.Contains(r.configs[m], p.ConfigName) {
			r.configs[m] = append(r.configs[m], p.ConfigName)
		}
	}
	if p.differs() {
		r.exact = append(r.exact, p.ConfigName+": "+p.exactText())
	}
	for _, text := range p.Notes {
		if !slices.Contains(r.notes, text) {
			r.notes = append(r.notes, text)
		}
	}
	for _, text := range p.Warnings {
		keep(text, false)
	}
	for _, text := range p.Differences {
		keep(text, true)
	}
}

// write prints the warnings, and then why the two accountings differ.
func (r *remarks) write(w io.Writer) {
	w = plaintext.Writer(w) // names of configs may be anything
	for _, text := range r.notes {
		fmt.Fprintln(w, "perigee: note:", text)
	}
	for _, m := range r.order {
		if !m.difference {
			fmt.Fprintf(w, "perigee: warning: %s: %s\n", r.of(m), r.texts[m][0])
		}
	}
	const most = 3
	for i, text := range r.exact {
		if i == most {
			fmt.Fprintf(w, "perigee: and %d more, in --format json\n", len(r.exact)-most)
			break
		}
		fmt.Fprintln(w, "perigee:", text)
	}
	first := true
	for _, m := range r.order {
		if !m.difference {
			continue
		}
		if first {
			fmt.Fprintf(w, "perigee: warning: --accounting %s counts otherwise:\n", r.accounting)
			first = false
		}
		fmt.Fprintf(w, "  %s: %s\n", r.of(m), r.texts[m][0])
	}
}

// of names the configs that a remark is about.
func (r *remarks) of(m remark) string {
	list := r.configs[m]
	const most = 3
	switch {
	case len(r.texts[m]) > 1:
		return fmt.Sprintf("%s (and with other numbers %d more)", list[0], len(list)-1)
	case len(list) == r.tried && r.tried > 1:
		return fmt.Sprintf("all %d configs", r.tried)
	case len(list) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

// KVCacheCmd is `perigee kvbench kvcache`.
type KVCacheCmd struct {
	Selection
	cli.Format
}

// Help adds to the flags in perigee kvbench kvcache --help.
func (KVCacheCmd) Help() string {
	return example("kvcache --model gpt-oss-120b --model_configs 'block-tp8-*' --accounting exact")
}

// Run prints the blocks of every config.
func (c *KVCacheCmd) Run(streams cli.Streams) error {
	var rows []fields
	err := c.each(streams, func(p *BlockPlan) error {
		if c.Format.Format == "text" {
			if len(c.ModelConfigs)+len(c.More) > 0 { // with one config the output is the original's
				fmt.Fprintf(streams.Out, "%-23s: %s (tp %d, pp %d)\n", "Model Config",
					plaintext.Escape(p.ConfigName), p.Config.TP, p.Config.PP)
			}
			return p.writeKVCache(streams.Out)
		}
		rows = append(rows, p.kvcacheRows()...)
		return nil
	})
	return finish(streams, c.Format.Format, rows, err)
}

// IOSizeCmd is `perigee kvbench iosize`.
type IOSizeCmd struct {
	Selection
	cli.Format
}

// Help adds to the flags in perigee kvbench iosize --help.
func (IOSizeCmd) Help() string {
	return example("iosize --model deepseek-r1 --model_config layer-tp1-pp1")
}

// Run prints the I/O size of every config.
func (c *IOSizeCmd) Run(streams cli.Streams) error {
	var rows []fields
	err := c.each(streams, func(p *BlockPlan) error {
		if p.KVBench != nil && p.KVBench.Transfers[0].IOSize1 == p.Exact.Transfers[0].IOSize1 {
			p.Warnings, p.Differences = nil, nil // they are of other figures
		}
		if c.Format.Format == "text" {
			return p.writeIOSize(streams.Out)
		}
		rows = append(rows, p.ioSizeRows()...)
		return nil
	})
	return finish(streams, c.Format.Format, rows, err)
}
