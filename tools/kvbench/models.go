package kvbench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/kit/value"
	"perigee/internal/model"
)

// ModelsCmd is `perigee kvbench models`.
type ModelsCmd struct {
	sheet.View
	Models []string `arg:"" optional:"" name:"model" completes:"models" help:"Models to show layer by layer: names, config.json files, files of your own. Without one: a list of those known."`
	Show   string   `name:"show" placeholder:"NAME" help:"Print the file of a shipped model or model config, to start one of your own with."`
	Export string   `name:"export" placeholder:"DIR" help:"Write all files into a new folder, under the names of the original's examples."`

	model.Flags `group:"Of a model"`
	TP          int64      `name:"tp" min:"1" max:"1048576" default:"1" placeholder:"N" group:"Of a model" help:"Count what one rank of so many of tensor parallelism holds (default: ${default}, the whole model)."`
	ISL         int64      `name:"isl" type:"tokens" min:"1" max:"1099511627776" default:"32768" placeholder:"TOKENS" group:"Of a model" help:"Tokens of the request whose bytes are shown (default: ${default}); 64k is 64000, 64K is 65536."`
	Fits        size.Bytes `name:"fits" placeholder:"SIZE" group:"Of a model" help:"How many tokens of a request, and how many requests of --isl tokens, fit into so much memory of a rank, such as 80GB."`
	PerRank     bool       `name:"per_rank" group:"Of a model" help:"Also what the fullest rank holds, by tensor and pipeline parallelism."`
	Output      []string   `name:"output" short:"o" aliases:"html,plot" sep:"none" placeholder:"FILE" group:"Of a model" help:"Write a curve of bytes against context: a page (.html) or a picture (.svg, .png); may be repeated."`
}

// Run lists the models, or prints or writes files.
func (c *ModelsCmd) Run(streams cli.Streams) error {
	switch {
	case c.Show != "" && c.Export != "":
		return usage("--show and --export exclude each other")
	case c.Show != "":
		return show(streams.Out, c.Show)
	case c.Export != "":
		return export(streams.Out, c.Export)
	case len(c.Models) > 0:
		return c.describe(streams)
	}
	if c.PerRank || c.Output != nil || c.Fits > 0 || c.TP > 1 || c.Flags.Given() {
		return usage("--per-rank, --output, --fits, --tp, --kv-cache-dtype, --state-dtype, --serving, --page-size: " +
			"wanted the name of a model, or its file")
	}
	t, err := modelTable()
	if err != nil {
		return err
	}
	if c.Format != "text" {
		return c.View.Write(streams.Out, t)
	}
	t.Title = ""
	t.Say = []string{"bytes of KV cache per token, whole model; int8 is as fp8, bfloat16 as fp16",
		"exact: in layers that keep all tokens; once: bytes that layers with a sliding window keep of a request longer " +
			"than it, whatever its length"}
	if err := c.View.Write(streams.Out, t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(plaintext.Folded(streams.Out), "\nModel configs: %s\n", strings.Join(ConfigNames(), ", "))
	return err
}

// modelTable has a row for every shipped model.
func modelTable() (*sheet.Sheet, error) {
	t := sheet.New("KV caches of models", "", "|Model", "|Family", "Layers", "KV heads", "kvbench fp8",
		"kvbench fp16", "exact fp8", "exact fp16", "once fp8", "once fp16", "state")
	for _, name := range model.Names() {
		m, ok := model.Shipped(name)
		if !ok {
			return nil, fault.New(fault.Internal, "the model %s is gone", name)
		}
		row := []any{name, m.Family, m.Layers, absentZero(m.Groups[0].Heads)}
		var exact, once []any
		var state int64
		// KVBench has a figure only for models whose layers all keep the same.
		k, known := m.Uniform()
		for _, dtype := range []string{"fp8", "fp16"} {
			c, err := m.CacheIn(dtype, model.Options{})
			if err != nil {
				return nil, err
			}
			var kvbench any
			if known {
				entry, err := k.EntryBytes(c.DType)
				if err != nil {
					return nil, err
				}
				kvbench = entry * m.Layers
			}
			growing, windows, fixed := c.TokenBytes()
			row = append(row, kvbench)
			exact, once, state = append(exact, int64(growing)), append(once, absentZero(windows)), fixed
		}
		row = append(append(append(row, exact...), once...), absentZero(state))
		t.AddRow(row...)
	}
	return t, nil
}

// absentZero is nil for 0: an empty cell.
func absentZero(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func show(out io.Writer, name string) error {
	_, text, ok := model.Source(name)
	if !ok {
		_, text, ok = configSource(name)
	}
	if !ok {
		suggestion := cmp.Or(value.Suggestion(name, ConfigNames()), model.Suggestion(name))
		return usage("there is no model or model config %q%s", name, suggestion).
			WithHint("there are %s", strings.Join(append(model.Names(), ConfigNames()...), ", "))
	}
	_, err := out.Write(text)
	return err
}

// exportName is the name that the original gives the file of a model: model_llama_3_1_8b.yaml for llama3.1-8b.
func exportName(name string) string {
	name = strings.NewReplacer("-", "_", ".", "_").Replace(name)
	return "model_" + strings.Replace(name, "llama3", "llama_3", 1) + ".yaml"
}

// export writes all files as the original names its examples:
// model_deepseek_r1.yaml, block-tp1-pp8.yaml.
func export(out io.Writer, folder string) error {
	count := 0
	_, err := file.WriteDir(context.Background(), folder, file.Refuse, func(d *file.Dir) error {
		write := func(name string, text []byte) error {
			count++
			return d.Write(name, 0o666, func(w io.Writer) error {
				_, err := w.Write(text)
				return err
			})
		}
		for _, name := range model.Names() {
			_, text, _ := model.Source(name) // the names are those of the sources
			if err := write(exportName(name), text); err != nil {
				return err
			}
		}
		for _, name := range ConfigNames() {
			file, text, _ := configSource(name)
			if err := write(file, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "# %d files written to %s\n", count, folder)
	return err
}
