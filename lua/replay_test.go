package lua

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/scenarios"
)

// traceOf writes a trace of requests every so many milliseconds, each of 600 tokens more than the one before.
func traceOf(t testing.TB, requests, every int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("timestamp_ms,input_length\n")
	for i := range requests {
		text.WriteString(strings.Join([]string{strconv.Itoa(i * every), strconv.Itoa(600 * (i + 1))}, ",") + "\n")
	}
	path := filepath.Join(t.TempDir(), "t.csv")
	must.Do(t, os.WriteFile(path, []byte(text.String()), 0o666))
	return path
}

// playReplay plays the shipped scenario on ranks of this process.
func playReplay(t *testing.T, n int, options map[string]any, change func(env *Env)) played {
	t.Helper()
	_, source, _ := scenarios.Source("replay")
	return playWith(t, n, source, options, change)
}

// A replay of what caches miss says how much whole prompts would be.
func TestReplayOfMisses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	text := strings.Repeat(`{"timestamp": 0, "input_length": 1024, "hash_ids": [1, 2]}`+"\n", 4)
	must.Do(t, os.WriteFile(path, []byte(text), 0o666))
	p := playReplay(t, 2, map[string]any{
		"trace": path, "model": "llama3.1-8b", "prefill": "1xTP1", "decode": "1xTP1", "scale": 0.001, "moved": "miss",
		"isolated": 0.0, "capacity": 0.0, "max_late": 60.0, "mem_type": "dram", "trace_unit": "ms",
	}, func(*Env) {})
	must.Do(t, p.failed())
	if want := "caches: whole prompts of all requests are 537 kB, of which 25.0 % move"; !strings.Contains(p.out[0], want) {
		t.Errorf("no %q in %s", want, p.out[0])
	}
}

// The shipped scenario moves every byte of every request, checks them, and says what came of it.
func TestReplay(t *testing.T) {
	for _, op := range []string{"READ", "WRITE"} {
		var terminal bytes.Buffer
		p := playReplay(t, 6, map[string]any{
			"trace": traceOf(t, 8, 25), "model": "llama3.1-8b", "prefill": "1xTP2", "decode": "2xTP2", "scale": 0.001, "op": op,
			"verify": true, "isolated": 0.05, "capacity": 2.0, "max_late": 60.0, "mem_type": "dram",
		}, func(env *Env) {
			if env.World.Rank() == 0 {
				env.Progress = &terminal
			}
		})
		must.Do(t, p.failed())
		r := p.doc.Replay
		// 131072 bytes a token, shrunk: 78643 and a part for 600 tokens, in 2 parts of equal shares.
		if r == nil || r.Done != 8 || r.SpanNS != 175e6 || r.Bytes < 36*78643 || r.Bytes > 36*78643+8*64 || r.Trace.Requests != 8 || r.Op != op {
			t.Fatalf("%s: %+v", op, r)
		}
		if r.Lateness.Posts != 16 || !r.Lateness.Valid || r.Capacity == nil || *r.Capacity <= 0 || len(r.Isolated) < 5 || r.Slowdown == nil ||
			len(r.Scales) != 1 || r.Scales[0].Windows != 2 {
			t.Errorf("%s: %+v", op, r)
		}
		// Each waits for an instant 2 ms after all have come: so many fit into 50 ms, and no two are at the same time.
		for _, a := range r.Isolated {
			if a.Runs < 3 || a.Runs > 4 {
				t.Errorf("%s: %+v", op, r.Isolated)
			}
		}
		for i, done := range r.Requests.Done {
			if r.Requests.Decode[i] != i%2 || done < r.Requests.Posted[i] || r.Requests.Posted[i] < r.Requests.Due[i] || r.Requests.Due[i] != int64(i)*25e6 {
				t.Errorf("%s: request %d: %+v", op, i, r.Requests)
			}
		}
		if m := p.doc.Matrices[p.doc.Patterns[0].Matrix]; m.Bytes != r.Bytes {
			t.Errorf("%s: a matrix of %d bytes, want %d", op, m.Bytes, r.Bytes)
		}
		if lines := strings.Split(p.out[0], "\n"); !strings.Contains(p.out[0], "\noffered ") || !strings.Contains(p.out[0], "verified: every byte of 8 transfers") {
			t.Errorf("%s: %q", op, lines)
		}
		for _, bar := range []string{"transfers", "requests"} {
			if !strings.Contains(terminal.String(), bar+" [") {
				t.Errorf("%s: no bar of %s on the terminal: %q", op, bar, terminal.String())
			}
		}
	}
}

// The capacity may be measured for longer than a timeout: ranks that post nothing have no long meeting. Where transfers
// take too long for a figure, a note says so.
func TestReplayCapacity(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		known   bool
	}{{3, true}, {1e-6, false}} {
		p := playReplay(t, 2, map[string]any{
			"trace": traceOf(t, 2, 10), "model": "llama3.1-8b", "prefill": "TP1", "decode": "TP1", "scale": 0.0001,
			"isolated": 0.0, "capacity": c.seconds, "max_late": 60.0, "mem_type": "dram",
		}, func(env *Env) { env.World.SetTimeout(2 * time.Second) })
		must.Do(t, p.failed())
		r, said := p.doc.Replay, strings.Contains(p.out[0], "no capacity is known: ")
		if (r.Capacity != nil) != c.known || (r.Stretches != nil) != c.known || said == c.known {
			t.Errorf("%g s: capacity %v, %s", c.seconds, r.Capacity, p.out[0])
		}
	}
}

// A rank that ends in the middle leaves the requests that were complete.
func TestReplayThatEnds(t *testing.T) {
	gone := errors.New("gone")
	p := playReplay(t, 2, map[string]any{
		"trace": traceOf(t, 100, 100), "model": "llama3.1-8b", "prefill": "TP1", "decode": "TP1", "scale": 0.0001, "isolated": 0.0, "capacity": 0.0,
	}, func(env *Env) {
		if env.World.Rank() == 1 {
			time.AfterFunc(4*time.Second, func() { env.World.Fail(gone) })
		}
	})
	if err := p.failed(); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Fatal(err)
	}
	if r := p.doc.Replay; r == nil || r.Done == 0 || r.Done == 100 || len(r.Requests.Done) != 100 || r.Requests.Done[99] != -1 || r.Requests.Done[0] < 0 || r.Latency == nil {
		t.Errorf("%+v", p.doc.Replay)
	}
}

// What cannot be replayed is refused with what to do.
func TestReplayRefuses(t *testing.T) {
	good := map[string]any{"trace": traceOf(t, 2, 100), "model": "llama3.1-8b", "prefill": "TP1", "decode": "TP1"}
	for name, c := range map[string]struct {
		with      map[string]any
		kind      fault.Kind
		want, how string
	}{
		"no model":         {map[string]any{"model": nil}, fault.Usage, "the replay has no model: wanted one such as --model qwen3-32b", "--prefill 2xTP2"},
		"no workers":       {map[string]any{"decode": nil}, fault.Usage, "the replay has no decode: wanted one such as --decode 2xTP2", ""},
		"unknown workers":  {map[string]any{"decode": "2x2"}, fault.Usage, `--decode: wanted workers such as 4xTP8, which are 4 of 8 ranks each, got "2x2"`, ""},
		"other ranks":      {map[string]any{"decode": "3xTP4"}, fault.Usage, "prefill 1xTP1 and decode 3xTP4 are 13 ranks, and there are 2", "start 13 ranks"},
		"a queue of WRITE": {map[string]any{"op": "WRITE", "in_flight": int64(2)}, fault.Usage, "--in-flight 2 with --op WRITE", "--op READ"},
		"layers at once":   {map[string]any{"layer_runs": int64(2)}, fault.Usage, "--layer-runs 2: runs of layers leave while the prompt is prefilled", "--flops"},
		"no ids":           {map[string]any{"moved": "miss"}, fault.Usage, "--moved miss: the trace", "hash_ids"},
		"unknown model":    {map[string]any{"model": "llama-9000"}, fault.Usage, "llama-9000", ""},
		"unknown dtype":    {map[string]any{"kv_cache_dtype": "fp3"}, fault.Usage, "--kv-cache-dtype", ""},
		"no file":          {map[string]any{"trace": "/nowhere/t.jsonl"}, fault.Input, "/nowhere/t.jsonl", ""},
		"an empty window":  {map[string]any{"from": 3600.0}, fault.Usage, "no request comes", "100ms"},
		"a small pool":     {map[string]any{"pool": int64(1000)}, fault.Input, "1000", ""},
	} {
		options := map[string]any{}
		for k, v := range good {
			options[k] = v
		}
		for k, v := range c.with {
			options[k] = v
			if v == nil {
				delete(options, k)
			}
		}
		err := playReplay(t, 2, options, func(*Env) {}).failed()
		if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.HintOf(err), c.how) {
			t.Errorf("%s: %v (kind %v, hint %s)", name, err, fault.KindOf(err), fault.HintOf(err))
		}
	}
}

// A run is repeated with the trace that its result holds, without the file.
func TestReplayAgain(t *testing.T) {
	path := traceOf(t, 3, 20)
	options := map[string]any{
		"trace": path, "model": "llama3.1-8b", "prefill": "TP1", "decode": "TP1", "scale": 0.0001, "isolated": 0.0, "capacity": 0.0,
	}
	first := playReplay(t, 2, options, func(*Env) {})
	must.Do(t, errors.Join(first.failed(), os.Remove(path)))
	again := playReplay(t, 2, options, func(env *Env) {
		if env.World.Rank() == 0 {
			env.Repeat = first.doc
		}
	})
	must.Do(t, again.failed())
	if a, b := first.doc.Replay, again.doc.Replay; a.Bytes != b.Bytes || a.Trace != b.Trace || a.Capacity != nil || a.Fit != nil || a.Scales == nil {
		t.Errorf("%+v, %+v", a, b)
	}
}

// Only rank 0 has the files of a model, in a folder or in the cache of Hugging Face, and all of them decide. The result
// holds them, and so the run is repeated without. A model that was known by its name stays the one.
func TestReplayOfCheckpoint(t *testing.T) {
	const config = `{"model_type": "x", "num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 64, "dtype": "float16"}`
	hub, folder := t.TempDir(), t.TempDir()
	t.Setenv("HF_HUB_CACHE", hub)
	put := func(at string) {
		t.Helper()
		err := os.MkdirAll(at, 0o777)
		for name, text := range map[string]string{"config.json": config, "hf_quant_config.json": `{"quantization": {"kv_cache_quant_algo": "FP8"}}`} {
			err = errors.Join(err, os.WriteFile(filepath.Join(at, name), []byte(text), 0o666))
		}
		must.Do(t, err)
	}
	put(folder)
	put(filepath.Join(hub, "models--nvidia--Llama-3.1-8B-FP8", "snapshots", "a"))
	for name, want := range map[string]struct {
		bytes  int64 // a token: 2 layers of 2 x 64 values, or 32 of 2 x 8 x 128 in 16 bit
		dtype  string
		inputs int
	}{
		folder: {256, "fp8", 3}, "nvidia/Llama-3.1-8B-FP8": {256, "fp8", 3}, "meta-llama/Llama-3.1-8B": {131072, "bf16", 1},
	} {
		options := map[string]any{
			"trace": traceOf(t, 1, 20), "model": name, "kv_cache_dtype": "auto", "prefill": "TP1", "decode": "TP1", "isolated": 0.0, "capacity": 0.0,
			"mem_type": "dram", "max_late": 60.0,
		}
		first := playReplay(t, 2, options, func(*Env) {})
		must.Do(t, first.failed())
		check := func(what string, p played) {
			t.Helper()
			if r := p.doc.Replay; r.Bytes != 600*want.bytes || r.DType != want.dtype || len(p.doc.Inputs) != want.inputs {
				t.Errorf("%s, %s: %d bytes of %s, %+v", name, what, r.Bytes, r.DType, p.doc.Inputs)
			}
		}
		check("at first", first)
		// Other files have come meanwhile.
		t.Setenv("HF_HUB_CACHE", filepath.Join(hub, "other"))
		put(filepath.Join(hub, "other", "models--meta-llama--Llama-3.1-8B", "snapshots", "a"))
		if name == folder {
			must.Do(t, os.RemoveAll(folder))
		}
		again := playReplay(t, 2, options, func(env *Env) {
			if env.World.Rank() == 0 {
				env.Repeat = first.doc
			}
		})
		must.Do(t, again.failed())
		check("again", again)
		t.Setenv("HF_HUB_CACHE", hub)
	}
	for name, says := range map[string]string{"nvidia/Llama-3.1-70B-FP8": "--kv-cache-dtype: nvidia/Llama-3.1-70B-FP8: what auto is", "tencent/Hy4": "--model: of \"tencent/Hy4\" only its class"} {
		err := playReplay(t, 2, map[string]any{
			"trace": traceOf(t, 1, 20), "model": name, "kv_cache_dtype": "auto", "prefill": "TP1", "decode": "TP1",
		}, func(*Env) {}).failed()
		must.Fail(t, err, fault.Usage, says)
	}
}

// A model's file is not read where the run will write over it.
func TestReplayOverModel(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "config.json")
	must.Do(t, os.WriteFile(path, []byte(`{"model_type": "x", "num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 64}`), 0o666))
	_, source, _ := scenarios.Source("replay")
	p := playAs(t, 2, source, Access{Result: path, Named: map[string]any{
		"trace": traceOf(t, 1, 20), "model": folder, "prefill": "TP1", "decode": "TP1"}}, func(*Env) {})
	must.Fail(t, p.failed(), fault.Usage, path)
}
