package launchers

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result/resulttest"
)

// What CloudAI (5b5c0f7) looks for in the log of each node of its workload NixlEP: figures and phases that are over, and
// words that mean a failure.
var (
	cloudaiFigures = regexp.MustCompile(`\[rank (\d+)\] Dispatch \+ combine bandwidth: ([-+\d.eE]+) GB/s, avg_t=([-+\d.eE]+) us, min_t=([-+\d.eE]+) us, max_t=([-+\d.eE]+) us`)
	cloudaiApart   = regexp.MustCompile(`\[rank (\d+)\] Dispatch bandwidth: ([-+\d.eE]+) GB/s(?:, avg_t=[-+\d.eE]+ us)? \| Combine bandwidth: ([-+\d.eE]+) GB/s(?:, avg_t=[-+\d.eE]+ us)?`)
	cloudaiPhase   = regexp.MustCompile(`-> end phase (\d+)`)
	cloudaiFailure = regexp.MustCompile(`python3: can't open file|Traceback \(most recent call last\):|no plan phases were found for rank|timed out after 300000ms|` +
		`srun: error:|Exited with exit code|exited before phase \d+ completed`)
)

// cloudaiLaunch starts one launch of CloudAI's script, with the flags of its reference data, and returns the node's log.
func cloudaiLaunch(t *testing.T, dir, more string) (log string, code int) {
	t.Helper()
	line := `srun --export=ALL --mpi=pmix --overlap --nodelist=node1 --ntasks-per-node=1 --ntasks=1 -N1 --output=node.log --error=node.log ` +
		`bash -c "source env_vars.sh; perigee ep elastic --plan ` + dir + `/nixl-ep-plan.json ` + more + ` --disable-ll-nvlink --engine shm --hidden-dim 256 ` +
		`--iters 4 --kineto --num-experts-per-rank 4 --num-tokens 8 --num-topk 3 --warmup 1"`
	o := shell(t, dir, line, inSlurm(t)...).Wait()
	data := must.Read(t, filepath.Join(dir, "node.log"))
	return string(data) + o.Stderr, o.Code
}

// One task starts all ranks of the plan, which kills one: CloudAI finds its lines, the figures go together, and no word
// of a failure is there. What would join from another launch is refused.
func TestCloudAINixlEP(t *testing.T) {
	dir := harness.Files(t, map[string]string{
		"nixl-ep-plan.json": "[\n  [0, 1, 2, 3],\n  [0, 1, -2, 3],\n  [0, 3]\n]\n", "env_vars.sh": "export UCX_TLS=all\n",
	})
	log, code := cloudaiLaunch(t, dir, "--num-processes 4 --result r.json")
	if code != 0 || cloudaiFailure.MatchString(log) {
		t.Fatalf("exit code %d\n%s", code, log)
	}
	var ranks, phases string
	for _, m := range cloudaiPhase.FindAllStringSubmatch(log, -1) {
		phases += m[1]
	}
	lines := cloudaiFigures.FindAllStringSubmatch(log, -1)
	for _, m := range lines {
		ranks += m[1]
		checkEpisode(t, dir, len(ranks)-1, m)
	}
	if ranks != "012301303" || phases != "012" || len(cloudaiApart.FindAllString(log, -1)) != len(lines) {
		t.Errorf("figures of ranks %s, phases %s\n%s", ranks, phases, log)
	}
	for more, want := range map[string]string{
		"--num-processes 2": "--num-processes is 2, and the plan has 4 ranks", "--num-processes 2 --tcp-server 10.11.0.1": "no rank can join a run from another launch",
	} {
		if log, code := cloudaiLaunch(t, dir, more); code != int(fault.Usage) || !strings.Contains(log, want) || !cloudaiFailure.MatchString(log) {
			t.Errorf("%s: exit code %d\n%s", more, code, log)
		}
	}
}

// checkEpisode compares a line, the n-th, with the result, and its rate with its time: a choice takes 280 bytes with
// header and scales, and 512 on the way back.
func checkEpisode(t *testing.T, dir string, n int, line []string) {
	t.Helper()
	number := func(i int) float64 {
		v, err := strconv.ParseFloat(line[i], 64)
		must.Do(t, err)
		return v
	}
	phase := []int{0, 0, 0, 0, 1, 1, 1, 2, 2}[min(n, 8)]
	played := resulttest.Check(t, filepath.Join(dir, "r.json")).Values["ep_elastic"].([]any)
	episodes := played[0].(map[string]any)["phases"].([]any)[phase].(map[string]any)["by_rank"].([]any)
	e := episodes[int(number(1))].(map[string]any)
	mean, least, most, rate := number(3), number(4), number(5), e["gb_per_s"].(float64)
	choices := rate * 1e3 * e["mean_us"].(float64) / (280 + 512)
	near := func(a, b, within float64) bool { return a > b-within && a < b+within }
	if least > mean || mean > most || !near(mean, e["mean_us"].(float64), 0.006) || !near(rate, number(2), 0.0006) ||
		!near(choices, float64(int(choices+0.5)), 1e-6) || choices < 0.5 || choices > 24.5 || phase == 0 && !near(choices, 24, 1e-6) {
		t.Errorf("%q, and %v in the result; %v choices", line[0], e, choices)
	}
}
