package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// Two layers of one head with 64 values: 512 bytes a token.
const (
	small     = `{"model_type": "x", "num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 64, "torch_dtype": "float16"}`
	fp8Cache  = `{"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}`
	fp8Weight = `{"model_type": "x", "num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 64, "quantization_config": {"quant_method": "fp8"}}`
)

// write writes a file and the folders above it.
func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
	must.Do(t, os.WriteFile(path, []byte(text), 0o666))
}

// download puts files into the cache as huggingface_hub does: blobs, and a folder for the revision with links to them.
func download(t *testing.T, hub, id, revision string, files map[string]string) {
	t.Helper()
	repo := filepath.Join(hub, "models--"+strings.ReplaceAll(id, "/", "--"))
	snapshot := filepath.Join(repo, "snapshots", revision)
	must.Do(t, os.MkdirAll(snapshot, 0o777))
	for name, text := range files {
		write(t, filepath.Join(repo, "blobs", revision+"-"+name), text)
		must.Do(t, os.Symlink(filepath.Join("..", "..", "blobs", revision+"-"+name), filepath.Join(snapshot, name)))
	}
}

func setMain(t *testing.T, hub, id, revision string) {
	t.Helper()
	write(t, filepath.Join(hub, "models--"+strings.ReplaceAll(id, "/", "--"), "refs", "main"), revision+"\n")
}

// wantAuto compares a model's name, precision and bytes of a token.
func wantAuto(t *testing.T, id, precision string, token float64) {
	t.Helper()
	m, err := Load(id)
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return
	}
	c, err := m.CacheIn("auto", Options{})
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return
	}
	if got, _, _ := c.TokenBytes(); m.Name != id || c.Precision() != precision || got != token {
		t.Errorf("%s: %s, %s, %v bytes a token, want %s and %v", id, m.Name, c.Precision(), got, precision, token)
	}
}

// TestCached reads ids from the local cache, whatever models of similar names perigee has.
func TestCached(t *testing.T) {
	hub := t.TempDir()
	t.Setenv("HF_HUB_CACHE", hub)
	type files = map[string]string
	download(t, hub, "Qwen/Qwen3-32B", "aaa", files{"config.json": small})
	setMain(t, hub, "Qwen/Qwen3-32B", "aaa")
	download(t, hub, "nvidia/Some-FP8", "bbb", files{"config.json": small, "hf_quant_config.json": fp8Cache})
	setMain(t, hub, "nvidia/Some-FP8", "bbb")
	download(t, hub, "nvidia/Some-FP8", "older", files{"config.json": small})
	download(t, hub, "org/scheme", "ccc", files{"config.json": strings.Replace(small, "{", `{"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "int"}},`, 1)})
	download(t, hub, "deepseek-ai/DeepSeek-R1-FP8", "ddd", files{"config.json": fp8Weight})
	wantAuto(t, "Qwen/Qwen3-32B", "fp16 (the file's dtype)", 512)
	wantAuto(t, "qwen/qwen3-32b", "fp16 (the file's dtype)", 512)
	wantAuto(t, "nvidia/Some-FP8", "fp8 (hf_quant_config.json says so)", 256)
	wantAuto(t, "org/scheme", "int8 (quantization_config says so)", 256)
	wantAuto(t, "deepseek-ai/DeepSeek-R1-FP8", "bf16 (assumed: the file says none)", 512)

	// Without refs/main, or where its snapshot lacks the file, it is the newest that has it.
	id := "org/several"
	for i, revision := range []string{"old", "new", "without"} {
		download(t, hub, id, revision, files{"README.md": ""})
		if revision != "without" {
			download(t, hub, id, revision, files{"config.json": strings.Replace(small, "_layers\": 2", "_layers\": "+[]string{"4", "6"}[i], 1)})
		}
		at := time.Now().Add(time.Duration(i-5) * time.Hour)
		must.Do(t, os.Chtimes(filepath.Join(hub, "models--org--several/snapshots", revision), at, at))
	}
	wantAuto(t, id, "fp16 (the file's dtype)", 1536)
	setMain(t, hub, id, "old")
	wantAuto(t, id, "fp16 (the file's dtype)", 1024)
	for _, gone := range []string{"without", "pruned", ""} {
		setMain(t, hub, id, gone)
		wantAuto(t, id, "fp16 (the file's dtype)", 1536)
	}

	// A repository without the file, as those of GGUF files, says nothing.
	download(t, hub, "Qwen/Qwen3-8B-GGUF", "eee", files{"README.md": ""})
	if m, err := Load("Qwen/Qwen3-8B-GGUF"); err != nil || m.Layers != 36 || m.ByName == "" {
		t.Errorf("a GGUF repository: %+v, %v", m, err)
	}
	for _, name := range []string{"Qwen3-32B", "qwen3-32b", "org/Qwen3-32B", "Qwen/Qwen3-32B/", "/Qwen/Qwen3-32B", "./Qwen3-32B", "../Qwen3-32B"} {
		if m, err := Load(name); err == nil && m.Layers != 64 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// Where only the config.json of quantized weights is in the cache, auto is refused: the other file may say more.
func TestHalfCached(t *testing.T) {
	hub := t.TempDir()
	t.Setenv("HF_HUB_CACHE", hub)
	download(t, hub, "nvidia/Llama-3.1-8B-NVFP4", "a", map[string]string{"config.json": small})
	m, err := Load("nvidia/Llama-3.1-8B-NVFP4")
	must.Do(t, err)
	_, err = m.CacheIn("auto", Options{})
	if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "nvidia/Llama-3.1-8B-NVFP4: ") || !strings.Contains(err.Error(), "hf_quant_config.json is not beside it") ||
		!strings.Contains(fault.HintOf(err), "hf download nvidia/Llama-3.1-8B-NVFP4 config.json hf_quant_config.json") {
		t.Errorf("%v (%s)", err, fault.HintOf(err))
	}
	if c, err := m.CacheIn("fp8", Options{}); err != nil || c.Precision() != "fp8 (as asked)" {
		t.Errorf("%v, %v", c, err)
	}
	if m, err := (Texts{Name: "llama-fp8.json", Files: []Text{{"llama-fp8.json", small}}}).Model(); err != nil || m.noAuto != "" {
		t.Errorf("a file by itself: %+v, %v", m, err)
	}
}

// The error of a broken file in the cache names it, and how to get it again.
func TestBrokenCache(t *testing.T) {
	hub := t.TempDir()
	t.Setenv("HF_HUB_CACHE", hub)
	repo := filepath.Join(hub, "models--Qwen--Qwen3-32B")
	at := filepath.Join(repo, "snapshots/a")
	for name, c := range map[string]struct {
		make      func()
		says, how string
	}{
		"cut off":   {func() { write(t, filepath.Join(at, configName), small[:30]) }, at + "/config.json:1: ", "download it again: hf download Qwen/Qwen3-32B config.json"},
		"no blob":   {func() { os.MkdirAll(at, 0o777); os.Symlink("../../blobs/none", filepath.Join(at, configName)) }, at + "/config.json: there is no such file", "download it again"},
		"no text":   {func() { write(t, filepath.Join(at, configName), "\xff") }, at + "/config.json:1: wanted UTF-8", "download it again"},
		"its words": {func() { write(t, filepath.Join(at, configName), strings.Replace(small, `"x"`, `"xlstm"`, 1)) }, at + "/config.json:1: model_type xlstm", "groups"},
		"its other": {func() {
			write(t, filepath.Join(at, configName), small)
			write(t, filepath.Join(at, quantName), fp8Cache[:20])
		}, at + "/hf_quant_config.json:1: ", "download it again"},
	} {
		must.Do(t, os.RemoveAll(repo))
		c.make()
		_, err := Load("Qwen/Qwen3-32B")
		if fault.KindOf(err) != fault.Input || !strings.HasPrefix(err.Error(), c.says) || !strings.Contains(fault.HintOf(err), c.how) {
			t.Errorf("%s: %v (%s), want %s", name, err, fault.HintOf(err), c.says)
		}
	}
}

// TestHubCache has where the cache is: the first variable that is set, and not empty.
func TestHubCache(t *testing.T) {
	set := [][2]string{
		{"HOME", "/h"}, {"XDG_CACHE_HOME", "/xdg"}, {"HF_HOME", "~/hf"}, {"HUGGINGFACE_HUB_CACHE", "/older"}, {"HF_HUB_CACHE", "$HOME/hub"},
	}
	for _, s := range set {
		t.Setenv(s[0], "")
	}
	for i, want := range []string{"/h/.cache/huggingface/hub", "/xdg/huggingface/hub", "/h/hf/hub", "/older", "/h/hub"} {
		t.Setenv(set[i][0], set[i][1])
		if got := hubCache(); got != want {
			t.Errorf("%s: got %s, want %s", set[i][0], got, want)
		}
	}
	for _, s := range set {
		t.Setenv(s[0], "")
	}
	if got := hubCache(); got != "" {
		t.Errorf("without a home: %s", got)
	}
	t.Setenv("HF_HUB_CACHE", "~other/hub")
	if got := hubCache(); got != "~other/hub" {
		t.Errorf("another's home: %s", got)
	}
}

// Texts go to other processes as JSON, and into documents, from which they come back without the files.
func TestTexts(t *testing.T) {
	hub, folder := t.TempDir(), t.TempDir()
	t.Setenv("HF_HUB_CACHE", hub)
	t.Chdir(folder)
	download(t, hub, "org/Some-FP8", "a", map[string]string{"config.json": small, "hf_quant_config.json": fp8Cache})
	write(t, "beside/config.json", small)
	write(t, "beside/hf_quant_config.json", fp8Cache)
	write(t, "own.json", small)
	write(t, "plain/config.json", small)
	for name, want := range map[string]struct{ precision, stored string }{
		"org/Some-FP8":            {"fp8 (hf_quant_config.json says so)", "org/Some-FP8/config.json org/Some-FP8/hf_quant_config.json"},
		"beside":                  {"fp8 (hf_quant_config.json says so)", "beside/config.json beside/hf_quant_config.json"},
		"./beside/":               {"fp8 (hf_quant_config.json says so)", "beside/config.json beside/hf_quant_config.json"},
		"beside/config.json":      {"fp8 (hf_quant_config.json says so)", "beside/config.json beside/hf_quant_config.json"},
		"own.json":                {"fp16 (the file's dtype)", "own.json"},
		"plain":                   {"fp16 (the file's dtype)", "plain/config.json"},
		"llama3.1-8b":             {"bf16 (the preset's, by name only)", ""},
		"meta-llama/Llama-3.1-8B": {"bf16 (the preset's, by name only)", ""},
	} {
		read, err := Read(name)
		must.Do(t, err)
		packed, _ := json.Marshal(read)
		var unpacked Texts
		must.Do(t, json.Unmarshal(packed, &unpacked))
		document, stored := map[string]string{}, ""
		for _, f := range read.Stored() {
			document[f.Path] = f.Text
			stored += " " + f.Path
		}
		restored, ok, err := Restore(name, func(path string) ([]byte, bool, error) {
			text, ok := document[path]
			return []byte(text), ok, nil
		})
		if err != nil || !ok || strings.TrimSpace(stored) != want.stored {
			t.Errorf("%s: %v, %v, stored as%s", name, ok, err, stored)
		}
		for _, texts := range []Texts{read, unpacked, restored} {
			m, err := texts.Model()
			must.Do(t, err)
			if c, err := m.CacheIn("auto", Options{}); err != nil || c.Precision() != want.precision {
				t.Errorf("%s: %v, %v, want %s", name, c, err, want.precision)
			}
		}
	}
	none := func(string) ([]byte, bool, error) { return nil, false, nil }
	if texts, ok, err := Restore("other.json", none); ok || err != nil {
		t.Errorf("a file that is not stored: %+v, %v", texts, err)
	}
	bad := func(string) ([]byte, bool, error) { return nil, true, os.ErrInvalid }
	if _, ok, err := Restore("other.json", bad); ok || err == nil {
		t.Errorf("a text that is wrong: %v", err)
	}
}
