package kvbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// Options without effect are named, and the printed command of perigee has none that perigee would refuse.
func TestIdleOptions(t *testing.T) {
	for line, want := range map[string]string{
		"--backend UCX --gds_filepath /tmp --num_files 3":   "--filepath, --num_files without effect: --backend UCX reaches no files",
		"--num_initiator_dev 2 --num_target_dev 2":          "--num_initiator_dev, --num_target_dev without effect in perigee run kvbench but with the scheme tp",
		"--backend POSIX --filepath x --scheme manytoone":   "--scheme manytoone without effect in perigee run kvbench: with files each rank works alone",
		"--backend POSIX --filepath x --num_requests 10000": "nixlbench cannot run its command: its POSIX plugin has a pool of 65536 requests",
		"--backend POSIX --filepath x":                      "",
	} {
		words := append([]string{"plan", "--model", "qwen3-8b", "--model_config", "block-tp1-pp1", "--accounting", "exact"}, strings.Fields(line)...)
		out, warned, err := runLine(t, words...)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !strings.Contains(warned, want) || want == "" && strings.Contains(warned, "effect") {
			t.Errorf("%s: %q, want %q", line, warned, want)
		}
		_, ours, _ := strings.Cut(out, "perigee run kvbench")
		for _, flag := range []string{"--filepath", "--num_files", "--num_initiator_dev"} {
			if strings.Contains(line, "UCX") && strings.Contains(ours, flag) {
				t.Errorf("%s: our command has %s:\n%s", line, flag, ours)
			}
		}
	}
	if list := (Bench{EnablePT: true, Mode: "MG"}).idleHere(""); !strings.Contains(strings.Join(list, " "), "--enable_pt") || !strings.Contains(strings.Join(list, " "), "--mode") {
		t.Errorf("%v", list)
	}
	if list := DefaultBench().idleHere(""); len(list) > 0 {
		t.Errorf("the defaults are named: %v", list)
	}
}

// Twenty configs give each warning once.
func TestWarningsComeOnce(t *testing.T) {
	_, warned, err := runLine(t, "kvcache", "--model", "deepseek-r1", "--model_configs", "*-tp*-pp*")
	must.Do(t, err)
	if n := strings.Count(warned, "counts otherwise"); n != 1 {
		t.Errorf("%d times:\n%s", n, warned)
	}
	if n := strings.Count(warned, "\n"); n > 9 || !strings.Contains(warned, " more): ") {
		t.Errorf("%d lines:\n%s", n, warned)
	}
}

// With several configs each is named, with its parallelism; with one the output is the original's.
func TestKVCacheNamesConfigs(t *testing.T) {
	several := mustRun(t, "kvcache --model llama3.1-8b --model_configs block-tp8-pp*")
	if !strings.HasPrefix(several, "Model Config           : block-tp8-pp1 (tp 8, pp 1)\nModel ") || !strings.Contains(several, ": block-tp8-pp32 (tp 8, pp 32)\n") {
		t.Error(several)
	}
	if one := mustRun(t, "kvcache --model llama3.1-8b --model_config block-tp8-pp1"); !strings.HasPrefix(one, "Model                  : ") {
		t.Error(one)
	}
}

// Options are enough without a config, and a config.json of Hugging Face is a model.
func TestWithoutFiles(t *testing.T) {
	inFolder(t, nil)
	const text = `{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}`
	must.Do(t, os.WriteFile("config.json", []byte(text), 0o644))
	figures := func(out string) string {
		_, rest, _ := strings.Cut(out, "\n") // without the name
		return rest
	}
	ours, theirs := mustRun(t, "kvcache --model config.json --tp 8 --isl 1000 --page_size 16"), mustRun(t, "kvcache --model llama3.1-8b --tp 8 --isl 1000 --page_size 16")
	if figures(ours) != figures(theirs) || !strings.Contains(ours, "Input Sequence Length  : 1000\n") {
		t.Errorf("got\n%s\nwant\n%s", ours, theirs)
	}
}

// The exported files have the names of the original's examples.
func TestExportNames(t *testing.T) {
	inFolder(t, nil)
	mustRun(t, "models --export out")
	for _, name := range []string{
		"model_deepseek_r1", "model_gpt_oss_120b", "model_llama_3_1_70b", "model_llama_3_1_8b", "model_qwen3_32b", "model_qwen3_8b",
		"block-tp8-pp32", "layer-tp8-pp32", "block-tp1-pp16", "layer-tp8-pp1",
	} {
		if _, err := os.Stat(filepath.Join("out", name+".yaml")); err != nil {
			t.Error(err)
		}
	}
}
