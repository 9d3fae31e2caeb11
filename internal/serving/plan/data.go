package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/serving/config"
)

// Data holds the fields that a template can use.
type Data struct {
	*config.Config
	ID            string
	Dir           string // result folder
	Concurrencies []int  // of the client
	Nodes         int
	Tasks         int
	TasksPerNode  int
	Workers       []Worker // generation servers first
	Front         Front
	Warmup        int // requests before the levels
	Perigee       string
	Probe         string
	Capped        bool   // on fewer nodes than asked for, with one task per server and node
	NodeSpan      int    // nodes that the placeholders stand for
	Secret        string // pattern of variables that environment.txt lacks

	planned []string // names of the plan's files
}

// OwnLogs are the logs that the config itself names, in the result folder, as words of the shell. An attempt of a job
// begins without those of the one before. Files of the plan stay, whatever the config calls them.
func (d *Data) OwnLogs() (words []string) {
	names := []string{d.AccuracyLog}
	if d.Metrics != nil {
		names = append(names, d.Metrics.LogFile)
	}
	for _, name := range names {
		isName := func(file string) bool { ok, err := filepath.Match(name, file); return ok || err != nil }
		if name == "" || isName("task.sh") || slices.ContainsFunc(d.planned, isName) {
			continue
		}
		parts := strings.Split("./"+name, "*")
		for i := range parts {
			if parts[i] != "" {
				parts[i] = cli.Quote(parts[i])
			}
		}
		words = append(words, strings.Join(parts, "*"))
	}
	return words
}

// noContext has workers and the front end do without context servers.
const noContext = "TRTLLM_DISAGG_BENCHMARK_GEN_ONLY=1"

// FrontEnv lists the environment of the front end.
func (d *Data) FrontEnv() []string {
	list := slices.Clone(d.Environment.ServerEnv)
	if d.Benchmark.Mode == "gen_only_no_context" {
		list = append(list, noContext)
	}
	return list
}

// WorkerEnv lists the environment of a worker.
func (d *Data) WorkerEnv(w Worker) []string {
	own, span := d.Environment.GenEnv, d.Profiling.GenRange
	if w.Role == "CTX" {
		own, span = d.Environment.CtxEnv, d.Profiling.CtxRange
	}
	list := slices.Concat(d.Environment.WorkerEnv, own)
	switch mode := d.Benchmark.Mode; {
	case mode == "gen_only_no_context":
		list = append(list, noContext)
	case mode == "gen_only":
		list = append(list, "TRTLLM_DISABLE_KV_CACHE_TRANSFER_OVERLAP=1")
		// A generation server begins when it has so many requests, once: the config has one level.
		if w.Role == "GEN" && d.Benchmark.Enabled && len(d.Benchmark.Levels) > 0 {
			list = append(list, fmt.Sprintf("TLLM_BENCHMARK_REQ_QUEUES_SIZE=%d", d.Benchmark.Levels[0]))
		}
	}
	if d.Profiling.On {
		list = append(list, "TLLM_PROFILE_START_STOP="+span)
	}
	return append(list, "CUDA_VISIBLE_DEVICES="+w.Devices)
}

// Mounts lists the mounts of the container: those of the config, and, unless one of those has them in their places, the
// folder of the launcher's scripts, and the result folder, from which servers take their configuration.
func (d *Data) Mounts() []string {
	var list []string
	if d.Environment.ContainerMount != "" {
		list = strings.Split(d.Environment.ContainerMount, ",")
	}
	for _, dir := range []string{d.Environment.WorkDir, d.Dir} {
		has := func(mount string) bool {
			from, to, _ := strings.Cut(mount, ":")
			return from != "" && from == to && strings.HasPrefix(dir+"/", strings.TrimSuffix(from, "/")+"/")
		}
		if filepath.IsAbs(dir) && !slices.ContainsFunc(list, has) {
			list = append(list, dir+":"+dir)
		}
	}
	return list
}

// TaskArguments lists the further arguments of an evaluation.
func (d *Data) TaskArguments(t config.Task) (list []string) {
	for _, a := range t.Extra {
		switch {
		case a.Key == "custom_config":
			list = append(list, "--include_path="+strings.ReplaceAll(a.Value, "<repo_path>", d.Environment.Repo))
		case a.Value == "true":
			list = append(list, "--"+a.Key)
		default:
			list = append(list, "--"+a.Key+"="+a.Value)
		}
	}
	return list
}
