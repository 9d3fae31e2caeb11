package kvbench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/size"
	"perigee/internal/model"
	"perigee/internal/model/parity"
)

// ParityCmd is `perigee kvbench parity`.
type ParityCmd struct {
	cli.Format
	Model        string   `name:"model" required:"" completes:"models" placeholder:"MODEL" help:"The config.json of a model, a model file of your own, or a name (perigee kvbench models lists those known)."`
	Tokens       int64    `name:"tokens" type:"tokens" min:"1" max:"1099511627776" required:"" placeholder:"N" help:"Tokens of the prompts whose caches should have moved: of all together, or with --requests of each."`
	Requests     int64    `name:"requests" min:"1" default:"1" placeholder:"N" help:"Requests of --tokens each. With windows and states several short requests keep more than one long one."`
	Metrics      []string `name:"metrics" required:"" sep:"none" placeholder:"FILE|URL" help:"Prometheus' text of an engine or exporter after the requests, in a file or at an address. Several are added up: those of prefill and of decode."`
	Before       []string `name:"before" sep:"none" placeholder:"FILE|URL" help:"The same before the requests: one for each --metrics, in their order. Without it all counters began at 0."`
	Metric       string   `name:"metric" placeholder:"NAME[:UNIT]" help:"Go by another counter than those known. It counts bytes unless a unit is named: kv_sent_mb:MiB."`
	KVCacheDType string   `name:"kv-cache-dtype" default:"auto" placeholder:"NAME" help:"Precision of the cache: auto (that of the model's file, the default), bf16, fp8, nvfp4, fp8_ds_mla and others."`
	DecodeTP     int64    `name:"decode-tp" min:"1" max:"1048576" default:"1" placeholder:"N" help:"Ranks of a decode worker that hold a request together: what goes to all of them is compared, too (default: ${default})."`
	model.Served
}

// Help adds to the flags in perigee kvbench parity --help.
func (ParityCmd) Help() string {
	return "Known counters: " + parity.KnownNames() + ". The exit code is 0 whatever the verdict.\n\n" +
		example("parity --model qwen3-32b --tokens 16000 --metrics http://prefill:8000 --metrics http://decode:8000")
}

// Run compares what was moved with what the model keeps, and says what that means.
func (c *ParityCmd) Run(streams cli.Streams) error {
	cache, kept, err := c.expected()
	if err != nil {
		return err
	}
	var metric *parity.Counter
	if c.Metric != "" {
		counter, err := parity.ParseCounter(c.Metric)
		if err != nil {
			return err
		}
		metric = &counter
	}
	readings, err := c.readings()
	if err != nil {
		return err
	}
	r, err := parity.Judge(readings, metric, kept)
	if err != nil {
		return err
	}
	engine := engineOf[r.Counter.Source]
	if r.Verdict == parity.Unknown && cache.Serving == model.Exact && engine != "" {
		c.Serving = engine // whose pages are the likely reason
		paged, kept, err := c.expected()
		if err != nil {
			return err
		}
		again, err := parity.Judge(readings, metric, kept)
		if err != nil {
			return err
		}
		if again.Verdict != parity.Unknown {
			r, cache = again, paged
		}
	}
	if c.Format.Format == "json" {
		return cli.WriteJSON(streams.Out, c.row(r, cache))
	}
	if c.Format.Format == "csv" {
		return writeCSV(streams.Out, []fields{c.row(r, cache)})
	}
	return c.write(streams.Out, r, cache)
}

// engineOf is the engine that has a source's counters.
var engineOf = map[string]string{"vLLM": string(model.VLLM), "SGLang": string(model.SGLang)}

// expected returns what the model keeps of the requests, once, and the cache that says so.
func (c *ParityCmd) expected() (*model.Cache, parity.Kept, error) {
	kept := parity.Kept{Requests: c.Requests}
	m, err := loadModel(c.Model)
	if err != nil {
		return nil, kept, err
	}
	if err := cmp.Or(c.CheckPages(), m.CheckCut(c.DecodeTP)); err != nil {
		return nil, kept, err
	}
	flags := model.Flags{KVCacheDType: c.KVCacheDType, Served: c.Served}
	cache, err := flags.Cache(m, c.DecodeTP)
	if err != nil {
		return nil, kept, err
	}
	move := model.Move{Serving: cache.Serving, From: c.DecodeTP, To: c.DecodeTP}
	all, ok := move.Bytes(cache, 0, c.Tokens)
	if !ok || all > math.MaxInt64/c.Requests {
		return nil, kept, usage("--tokens, --requests, --decode-tp: the bytes do not fit 63 bits")
	}
	kept.All, kept.Ranks = all*c.Requests, c.DecodeTP
	kv, state, err := cache.Bytes(c.Tokens)
	if err != nil {
		return nil, kept, err
	}
	kept.DType = cache.DType.Name
	for _, g := range cache.Model.Groups {
		kept.Latents = kept.Latents || g.Copied() && g.Kind != model.SharedKV
		if !cache.Model.Uneven() {
			kept.Heads = max(kept.Heads, g.Heads)
		}
	}
	switch kept.Bytes = kv + state; {
	case kept.Bytes == 0:
		return nil, kept, usage("--tokens %d: %s keeps nothing of so few", c.Tokens, m.Name)
	case kept.Bytes > math.MaxInt64/c.Requests:
		return nil, kept, usage("--requests %d: their caches do not fit 63 bits", c.Requests)
	}
	kept.Bytes *= c.Requests
	return cache, kept, nil
}

// readings reads the texts, each with the one from before.
func (c *ParityCmd) readings() ([]parity.Reading, error) {
	if len(c.Before) > 0 && len(c.Before) != len(c.Metrics) {
		return nil, usage("--before: wanted one for each of the %d --metrics, in their order, got %d", len(c.Metrics),
			len(c.Before))
	}
	readings := make([]parity.Reading, len(c.Metrics))
	for i := range c.Metrics {
		var err error
		if readings[i].After, err = parity.Read(context.Background(), c.Metrics[i]); err != nil {
			return nil, err
		}
		if len(c.Before) == 0 {
			continue
		}
		if readings[i].Before, err = parity.Read(context.Background(), c.Before[i]); err != nil {
			return nil, err
		}
	}
	return readings, nil
}

// row is the comparison for programs.
func (c *ParityCmd) row(r *parity.Result, cache *model.Cache) fields {
	var moved, factor any
	if r.Verdict != parity.None {
		moved, factor = r.Moved, r.Factor
	}
	return fields{
		{"verdict", string(r.Verdict)}, {"factor", factor}, {"moved_bytes", moved}, {"expected_bytes", r.Expected},
		{"metric", r.Counter.Name}, {"why", r.Why}, {"notes", orEmpty(r.Notes)},
		{"model", cache.Model.Name}, {"tokens", c.Tokens}, {"requests", c.Requests},
		{"serving", absent(string(cache.Serving))}, {"block", cache.Block},
		{"kv_cache_dtype", cache.DType.Name}, {"kv_cache_dtype_by", cache.DTypeBy},
	}
}

// write prints the answer, the bytes on which it stands, and why.
func (c *ParityCmd) write(out io.Writer, r *parity.Result, cache *model.Cache) error {
	w := plaintext.Folded(plaintext.Writer(out)) // names of models and counters may be anything
	fmt.Fprintln(w, r.Answer)
	if r.Verdict != parity.None {
		fmt.Fprintf(w, "moved     %s by %s (%s)\n", size.Exact(r.Moved), r.Counter.Name, r.Counter.Counts)
	}
	tokens := cli.Count(c.Tokens, "token")
	if c.Requests > 1 {
		tokens = fmt.Sprintf("%d requests of %s", c.Requests, tokens)
	}
	fmt.Fprintf(w, "expected  %s: what %s keeps of %s in %s (%s), once\n", size.Exact(r.Expected), cache.Model.Name, tokens,
		cache.DType.Name, cache.DTypeBy)
	if cache.Serving != model.Exact {
		fmt.Fprintf(w, "          as %v moves it, in %s\n", cache.Serving, cache.BlockText())
	}
	if text := cache.States(); text != "" {
		fmt.Fprintf(w, "          %s\n", text)
	}
	_, err := fmt.Fprintf(w, "why       %s\n", r.Why)
	for _, note := range r.Notes {
		_, err = fmt.Fprintf(w, "note      %s\n", note)
	}
	return err
}
