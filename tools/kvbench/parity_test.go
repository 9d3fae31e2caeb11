package kvbench

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// metricsFolder has texts of exporters, and truth.json what they say.
const metricsFolder = "../../internal/model/parity/testdata"

// The command says what truth.json has of each text, in JSON and as the first line of a text.
func TestParityTruth(t *testing.T) {
	data := must.Read(t, filepath.Join(metricsFolder, "truth.json"))
	var truth struct {
		Expected float64 `json:"expected_bytes"`
		Cases    []struct {
			Metrics, Before, Verdict string
			Factor                   float64
			Exit                     fault.Kind
		}
	}
	must.Do(t, json.Unmarshal(data, &truth))
	begins := map[string]string{"once": "moved once\n", "nothing": "nothing moved\n", "none": "no verdict\n",
		"half": "half: fp8 instead of bf16?\n", "unknown": "the factor 0.37; no known reason\n"}
	for _, c := range truth.Cases {
		args := []string{"parity", "--model", "qwen3-32b", "--tokens", "16000", "--metrics", filepath.Join(metricsFolder, c.Metrics)}
		if c.Before != "" {
			args = append(args, "--before", filepath.Join(metricsFolder, c.Before))
		}
		out, _, err := runLine(t, append(args, "--format", "json")...)
		if c.Exit != 0 {
			if fault.KindOf(err) != c.Exit || out != "" {
				t.Errorf("%s: %v and %q, want the exit code %d", c.Metrics, err, out, c.Exit)
			}
			continue
		}
		var got map[string]any
		if err != nil || json.Unmarshal([]byte(out), &got) != nil {
			t.Errorf("%s: %v\n%s", c.Metrics, err, out)
			continue
		}
		factor, counted := got["factor"].(float64)
		moved, _ := got["moved_bytes"].(float64)
		if got["verdict"] != c.Verdict || got["expected_bytes"] != truth.Expected || counted == (c.Verdict == "none") ||
			math.Abs(factor-c.Factor) > 0.01*c.Factor || math.Abs(moved-factor*truth.Expected) > 1 || got["why"] == "" ||
			got["metric"] == "" || got["kv_cache_dtype"] != "bf16" || got["kv_cache_dtype_by"] == "" {
			t.Errorf("%s: got %v, want %s, %v", c.Metrics, got, c.Verdict, c.Factor)
		}
		if text, _, _ := runLine(t, args...); !strings.HasPrefix(text, begins[c.Verdict]) ||
			!strings.Contains(text, "\nexpected  4.19 GB (4194304000 bytes): what QWEN3_32B keeps of 16000 tokens in bf16") {
			t.Errorf("%s:\n%s", c.Metrics, text)
		}
	}
}

// What is expected follows the options, and an engine's address is read as a file is.
func TestParityOptions(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("kv_sent_mb 2000\nvllm:nixl_bytes_transferred_sum 2097152000\n"))
	}))
	defer server.Close()
	const mib = 1 << 20
	keys := []string{"verdict", "factor", "moved_bytes", "expected_bytes", "metric", "why", "notes", "model", "tokens",
		"requests", "serving", "block", "kv_cache_dtype", "kv_cache_dtype_by"}
	slices.Sort(keys)
	for line, want := range map[string]map[string]any{
		"--tokens 8000":                                                  {"verdict": "once", "expected_bytes": 2000.0 * mib, "moved_bytes": 2000.0 * mib},
		"--tokens 2000 --requests 4":                                     {"verdict": "once", "expected_bytes": 2000.0 * mib, "requests": 4.0},
		"--tokens 16000 --kv-cache-dtype fp8":                            {"verdict": "once", "kv_cache_dtype": "fp8", "kv_cache_dtype_by": "as asked"},
		"--tokens 4000 --kv_cache_dtype fp16":                            {"verdict": "copies", "factor": 2.0, "kv_cache_dtype": "fp16"},
		"--tokens 8000 --metric kv_sent_mb:MiB":                          {"verdict": "once", "metric": "kv_sent_mb"},
		"--tokens 16000 --metrics " + server.URL:                         {"verdict": "once", "moved_bytes": 4000.0 * mib},
		"--tokens 8000 --before " + server.URL:                           {"verdict": "nothing", "factor": 0.0, "moved_bytes": 0.0},
		"--tokens 8000 --kv_cache_dtype auto":                            {"kv_cache_dtype": "bf16", "kv_cache_dtype_by": "the preset's, by name only"},
		"--tokens 7993 --serving vllm":                                   {"expected_bytes": 2000.0 * mib, "serving": "vllm", "block": 16.0},
		"--tokens 8000 --model Qwen/Qwen3-32B-AWQ --kv_cache_dtype bf16": {"verdict": "once"},
	} {
		args := append([]string{"parity", "--format", "json", "--metrics", server.URL}, strings.Fields(line)...)
		if !strings.Contains(line, "--model") {
			args = append(args, "--model", "qwen3-32b")
		}
		out, _, err := runLine(t, args...)
		var got map[string]any
		if err != nil || json.Unmarshal([]byte(out), &got) != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
			continue
		}
		var has []string
		for key := range got {
			has = append(has, key)
		}
		if slices.Sort(has); !slices.Equal(has, keys) {
			t.Errorf("%s: the keys %q, want %q", line, has, keys)
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s %v, want %v", line, key, got[key], value)
			}
		}
	}
	out := mustRun(t, "parity --model qwen3-32b --tokens 8000 --format csv --metrics "+server.URL)
	if !strings.HasPrefix(out, "verdict,factor,moved_bytes,") || !strings.Contains(out, "\nonce,1,2097152000,2097152000,") {
		t.Error(out)
	}
	// Of a latent vector a copy for each rank is no surprise.
	out = mustRun(t, "parity --model deepseek-v3 --tokens 29843 --metrics "+server.URL)
	if !strings.HasPrefix(out, "moved once\n") {
		t.Error(out)
	}
	out = mustRun(t, "parity --model deepseek-v3 --tokens 3730 --metrics "+server.URL)
	if !strings.HasPrefix(out, "8 copies\n") || !strings.Contains(out, "each of 8 ranks that hold the latent vectors") {
		t.Error(out)
	}
}

func TestParityRefusals(t *testing.T) {
	once := filepath.Join(metricsFolder, "once.txt")
	base := "parity --model qwen3-32b --tokens 16000 --metrics " + once
	for _, tt := range []struct {
		line string
		kind fault.Kind
		says string
	}{
		{"parity --model qwen3-32b --tokens 16000", fault.Usage, "--metrics"},
		{"parity --model qwen3-32b --metrics " + once, fault.Usage, "--tokens"},
		{base + " --tokens 0", fault.Usage, "--tokens: wanted a whole number of tokens from 1"},
		{base + " --tokens 2000000000000", fault.Usage, "from 1 to 1099511627776"},
		{base + " --requests 0", fault.Usage, "--requests: wanted a whole number of at least 1"},
		{base + " --requests 9223372036854775807", fault.Usage, "do not fit 63 bits"},
		{base + " --before " + once + " --before " + once, fault.Usage, "wanted one for each of the 1 --metrics, in their order, got 2"},
		{base + " --kv_cache_dtype fp3", fault.Usage, `--kv-cache-dtype: there is no precision "fp3"`},
		{base + " --metric kv_mb", fault.Usage, "wanted its unit, such as kv_mb:MiB"},
		{base + " --metric up", fault.Input, "once.txt: there is no sample of up"},
		{base + " --metrics gone.txt", fault.Input, "cannot read metrics: open gone.txt: no such file"},
		{"parity --model qwn3-32b --tokens 1 --metrics " + once, fault.Usage, `did you mean "qwen3-32b"?`},
		{"parity --model Qwen/Qwen3-32B-AWQ --tokens 1 --metrics " + once, fault.Usage, "hf_quant_config.json may say another precision"},
	} {
		_, _, err := runLine(t, strings.Fields(tt.line)...)
		wantFault(t, tt.line, err, tt.kind, tt.says)
	}
}
