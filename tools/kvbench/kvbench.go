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
//   - the I/O size is what one block holds on one GPU: a page of tokens in one layer
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
package kvbench

import (
	"fmt"

	"perigee/internal/cli"
)

// Cmd is `perigee kvbench`.
type Cmd struct {
	Plan    PlanCmd    `cmd:"" help:"Print the nixlbench command, and the perigee command, that move a model's KV cache."`
	Profile ProfileCmd `cmd:"" help:"Run these benchmarks here."`
	KVCache KVCacheCmd `cmd:"" name:"kvcache" help:"Print the number and the size of the blocks of a KV cache."`
	IOSize  IOSizeCmd  `cmd:"" name:"iosize" help:"Print the bytes of one token in one block."`
	Models  ModelsCmd  `cmd:"" help:"List the shipped models and model configs, or print one."`
}

// Help is what perigee kvbench --help says beyond the commands.
func (Cmd) Help() string {
	return "perigee kvbench models lists what --model and --model_config know by name. See docs/kvbench.md."
}

// Format is how a command prints.
type Format struct {
	Format string `name:"format" enum:"text,json,csv" default:"text" help:"text, json or csv."`
}

// PlanCmd is `perigee kvbench plan`.
type PlanCmd struct {
	Selection
	Format
	Bench
}

// Help is what perigee kvbench plan --help says beyond the flags.
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
	err := c.each(streams, func(p *Plan) error {
		if err := p.command(c.Bench); err != nil {
			return err
		}
		p.warn(streams)
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

// warn tells what the user should know of a plan.
func (p *Plan) warn(streams cli.Streams) {
	for _, text := range p.Warnings {
		fmt.Fprintf(streams.Err, "perigee: warning: %s: %s\n", p.ConfigName, text)
	}
	other := accountingExact
	if p.Accounting == accountingExact {
		other = accountingKVBench
	}
	for i, text := range p.Differences {
		if i == 0 {
			fmt.Fprintf(streams.Err, "perigee: warning: %s: --accounting %s counts otherwise:\n", p.ConfigName, other)
		}
		fmt.Fprintf(streams.Err, "  %s\n", text)
	}
}

// KVCacheCmd is `perigee kvbench kvcache`.
type KVCacheCmd struct {
	Selection
	Format
}

// Help is what perigee kvbench kvcache --help says beyond the flags.
func (KVCacheCmd) Help() string {
	return example("kvcache --model gpt-oss-120b --model_configs 'block-tp8-*' --accounting exact")
}

// Run prints the blocks of every config.
func (c *KVCacheCmd) Run(streams cli.Streams) error {
	var rows []fields
	err := c.each(streams, func(p *Plan) error {
		p.warn(streams)
		if c.Format.Format == "text" {
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
	Format
}

// Help is what perigee kvbench iosize --help says beyond the flags.
func (IOSizeCmd) Help() string {
	return example("iosize --model deepseek-r1 --model_config layer-tp1-pp1")
}

// Run prints the I/O size of every config.
func (c *IOSizeCmd) Run(streams cli.Streams) error {
	var rows []fields
	err := c.each(streams, func(p *Plan) error {
		if p.KVBench.Transfers[0].IOSize1 != p.Exact.Transfers[0].IOSize1 {
			p.warn(streams)
		}
		if c.Format.Format == "text" {
			return p.writeIOSize(streams.Out)
		}
		rows = append(rows, p.ioSizeRows()...)
		return nil
	})
	return finish(streams, c.Format.Format, rows, err)
}
