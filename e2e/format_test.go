package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// command is a line of the help that names a command.
var command = regexp.MustCompile(`(?m)^  ([a-z][a-z -]*[a-z])  +[A-Z]`)

// commandsWith lists the commands below words whose help shows a flag with json.
func commandsWith(t *testing.T, dir string, words ...string) (list []string) {
	help := harness.MustRun(t, dir, append(slices.Clone(words), "--help")...).Stdout
	head, _, _ := strings.Cut(help, "\n")
	if strings.Contains(head, "<command>") {
		_, help, _ = strings.Cut(help, "\nFlags:")
		for _, m := range command.FindAllStringSubmatch(help, -1) {
			name := strings.Fields(m[1])
			list = append(list, commandsWith(t, dir, append(slices.Clone(words), name[len(name)-1])...)...)
		}
		return list
	}
	if _, flag, ok := strings.Cut(help, " --format="); ok {
		if flag, _, _ := strings.Cut(flag, " --"); strings.Contains(flag, "json") {
			list = append(list, strings.Join(words, " "))
		}
	}
	return list
}

// checkFits checks that no line of a command's text is wider than the terminal, unless it is one word.
func checkFits(t *testing.T, dir string, words []string) {
	if words[0] == "disagg" && words[1] != "list" && words[1] != "parse" {
		return // one line for each problem, which begins with its file
	}
	for _, columns := range []int{80, 120} {
		o := harness.Start(t, harness.Command{Dir: dir, Args: words, Env: []string{fmt.Sprint("COLUMNS=", columns)}}).Wait()
		for line := range strings.Lines(o.Stdout) {
			if utf8.RuneCountInString(strings.TrimSpace(line)) > columns && len(strings.Fields(line)) > 2 {
				t.Errorf("perigee %s, in %d columns: %s", strings.Join(words, " "), columns, line)
				break
			}
		}
	}
}

// Every command with --format json prints one JSON document on standard output, and nothing else there.
func TestEveryFormatIsJSON(t *testing.T) {
	data := func(path string) string {
		path, err := filepath.Abs(filepath.Join("..", "tools", filepath.FromSlash(path)))
		must.Do(t, err)
		return path
	}
	dir := harness.Files(t, map[string]string{
		"m.txt": "0 1K\n0 0\n", "t.csv": "time_s,isl\n0,10\n1,20\n", "loads.txt": "1 2 3 4 5 6 7 8\n",
		"m.prom": "agent_tx_bytes_total 4194304000\n",
		"c.yaml": "iters: 2\nisolation_iters: 2\ntraffic_patterns:\n- {matrix_file: m.txt, mem_type: cpu, sleep_before_launch_sec: 0.001}\n",
	})
	harness.MustRun(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", "shm", "--result", "r.json")
	model := []string{"--model", "llama3.1-8b", "--model_config", "block-tp8-pp2", "--isl", "8000", "--num_requests", "4"}
	configs, sweep := data("disagg/testdata/configs"), data("sweep/testdata/sweepA")
	elsewhere := []string{"disagg report", "disagg compare"} // they take results of Slurm: e2e/disagg
	runs := map[string][]string{
		"disagg list":     {"--root", configs},
		"disagg validate": {configs}, // with invalid ones
		"disagg parse":    {data("disagg/testdata/logs/1_clean_two_levels.log")},
		"disagg run":      {filepath.Join(configs, "00_base_valid.yaml"), "--dry-run", "--output", "out"},
		"doctor":          nil,
		"ep placement":    {"--loads", "loads.txt", "--replicas", "8", "--gpus", "2", "--nodes", "1", "--groups", "1"},
		"ep routing":      nil,
		"kvbench plan":    model,
		"kvbench kvcache": model,
		"kvbench iosize":  model,
		"kvbench models":  nil,
		"kvbench parity":  {"--model", "qwen3-32b", "--tokens", "16000", "--metrics", "m.prom"},
		"report":          {"r.json"},
		"compare":         {"r.json", "r.json"},
		"rerun":           {"r.json"},
		"result convert":  {"r.json", "-"},
		"scenarios":       nil,
		"simulate":        {"--config", "c.yaml"},
		"sweep report":    {sweep},
		"sweep table":     {sweep},
		"sweep scenarios": {sweep},
		"sweep columns":   nil,
		"trace show":      {"t.csv"},
	}
	for _, name := range append(commandsWith(t, dir), "simulate") { // which is hidden
		args, ok := runs[name]
		if slices.Contains(elsewhere, name) {
			continue
		}
		if !ok {
			t.Errorf("perigee %s has --format json, and no test here", name)
			continue
		}
		delete(runs, name)
		o := harness.Run(t, dir, slices.Concat(strings.Fields(name), args, []string{"--format", "json"})...)
		d := json.NewDecoder(strings.NewReader(o.Stdout))
		var document any
		if err := d.Decode(&document); err != nil || document == nil {
			t.Errorf("perigee %s: exit code %d, %v:\n%s%s", name, o.Code, err, o.Stdout, o.Stderr)
		} else if _, err := d.Token(); err != io.EOF {
			t.Errorf("perigee %s prints more than a document:\n%s", name, o.Stdout)
		}
		checkFits(t, dir, append(strings.Fields(name), args...))
	}
	if len(runs) > 0 {
		t.Errorf("not found in the help: %q", slices.Sorted(maps.Keys(runs)))
	}
}
