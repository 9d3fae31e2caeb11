package lua

import (
	"strings"
	"testing"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// A run has the phase in which it ran, whenever it is collected, and isolated is the mean of runs alone.
func TestRunsHaveThePhaseInWhichTheyRan(t *testing.T) {
	p := mustPlay(t, 2, body(`
		local plan = transfer.prepare { matrix = matrix.ring { bytes = 64 } }
		plan:run(2)
		world.phase("isolated")
		plan:run(3)
		world.phase("workload")
		plan:run(4)
		plan:post()
		world.phase("later")
		plan:wait()
		world.phase("end")
		local c = transfer.collect { plan }
		if not c then return end
		local worst = 0
		for rank = 0, 1 do
			local sum = 0
			for i = 3, 5 do sum = sum + c[1].runs[i].rank_seconds[rank] end
			worst = math.max(worst, sum / 3)
		end
		assert(math.abs(c[1].isolated - worst) < 1e-9 and c[1].mean ~= c[1].isolated)`))
	var got []string
	for i, m := range p.doc.Measurements {
		got = append(got, m.Phase)
		if first := i == 0 || p.doc.Measurements[i-1].Phase != m.Phase; first != (m.Iteration == 0) {
			t.Errorf("run %d of the phase %s has the iteration %d", i, m.Phase, m.Iteration)
		}
	}
	if got := strings.Join(got, " "); got != "start start isolated isolated isolated workload workload workload workload workload" {
		t.Error(got)
	}
}

// Ranks that are in different phases are named.
func TestInitiatorsInDifferentPhases(t *testing.T) {
	p := mustPlay(t, 2, body(`
		local plan = transfer.prepare { matrix = matrix.ring { bytes = 64 } }
		if world.rank == 1 then world.phase("mine") end
		plan:run(2)
		transfer.collect { plan }`))
	if notes := strings.Join(p.doc.Notes, "\n"); !strings.Contains(notes, "rank 0 was in the phase start when it ran") ||
		!strings.Contains(notes, "rank 1 in mine: runs count for the phase of their first initiator") || p.doc.Measurements[1].Phase != "start" {
		t.Errorf("got %q", notes)
	}
}

// A threshold on a phase without samples names the phases that have some.
func TestPhasesWithSamplesAreNamed(t *testing.T) {
	p := mustPlay(t, 2, body(`
		local plan = transfer.prepare { matrix = matrix.ring { bytes = 64 } }
		plan:run()
		world.phase("isolated")
		plan:run()
		transfer.collect { plan }`))
	for text, want := range map[string]string{
		`latency_ms{phase="workload"}.max < 1`: `: there are no samples in this phase, only in "start" and "isolated"`,
		`latency_ms{rank=9}.max < 1`:           ": there are no samples",
	} {
		limit, err := metric.Parse(text)
		must.Do(t, err)
		if o := limit.Judge(p.doc); o.Passed || !strings.HasSuffix(o.String(), want) {
			t.Errorf("%s: %s, want %s", text, o, want)
		}
	}
}

// Between fill and check nothing else runs into the same memory.
func TestNothingRunsBetweenFillAndCheck(t *testing.T) {
	play := func(between string) error {
		return playScript(t, 2, body(`
			local function plan(bytes, lane, m)
				return transfer.prepare { name = "p" .. bytes, lane = lane, matrix = m or matrix.ring { bytes = bytes }, mem = "dram" }
			end
			local mine, same, lane = plan(64, 0), plan(65, 0), plan(66, 1)
			local ping = plan(67, 0, matrix.from { { 0, 9 }, { 0, 0 } })
			local pong = plan(68, 0, matrix.from { { 0, 0 }, { 9, 0 } })
			local apart = transfer.apart { mine, same }
			`+between), nil).failed()
	}
	for between, refused := range map[string]bool{
		"mine:fill(1) mine:run() mine:check(1) same:run() mine:verify() same:verify()":                                                    false,
		"mine:fill(1) lane:run() mine:run() mine:check(1)":                                                                                false,
		"ping:fill(1) pong:run() ping:run() ping:check(1)":                                                                                false,
		"for _, p in ipairs(apart) do p:fill(1) end for _, p in ipairs(apart) do p:run() end for _, p in ipairs(apart) do p:check(1) end": false,
		"mine:fill(1) same:run() mine:run() mine:check(1)":                                                                                true,
		"mine:fill(1) mine:run() same:fill(1) mine:check(1)":                                                                              true,
		"mine:fill(1) same:post() same:wait() mine:run() mine:check(1)":                                                                   true,
	} {
		err := play(between)
		if refused && (fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), "p65 has run since fill, into the same memory")) || !refused && err != nil {
			t.Errorf("%s: %v", between, err)
		}
	}
}

// Shards that are too few or too many in a script are its fault, whatever way they are wrong.
func TestShardsOfAScript(t *testing.T) {
	for shards, want := range map[string]string{"0": "wanted a whole number of at least 1, got 0", "1048577": "shards: wanted at most 1048576, got 1048577"} {
		err := playScript(t, 2, body(`transfer.prepare { matrix = matrix.ring { bytes = 64 }, shards = `+shards+` }`), nil).failed()
		must.Fail(t, err, fault.Script, want)
	}
}

// A threshold that says abort ends a run soon, and leaves one that is over alone.
func TestAbortsWithinASecond(t *testing.T) {
	const limit = "threshold('latency_ms', 'max < -1', { abort = true })\n"
	p := playScript(t, 2, limit+body(`
		local plan, began = transfer.prepare { matrix = matrix.ring { bytes = 64 } }, clock.now()
		while clock.now() < began + 20 do
			world.barrier()
			plan:run()
			transfer.save { plan }
		end
		error("it went on")`), nil)
	if err := p.failed(); fault.KindOf(err) != fault.Threshold || !strings.Contains(fault.HintOf(p.errs[0]), "has ended the run in the phase start, ") {
		t.Errorf("%v, %s", err, fault.HintOf(p.errs[0]))
	}
	first, last := p.doc.Measurements[0], p.doc.Measurements[len(p.doc.Measurements)-1]
	if took := last.EndNS - first.StartNS; took > 2e9 { // a second, and a busy machine
		t.Errorf("it went on for %d ms", took/1e6)
	}
	// With one initiator each run is a latency.
	mustPlay(t, 2, limit+body(`
		local plan = transfer.prepare { matrix = matrix.from { { 0, 64 }, { 0, 0 } } }
		plan:run(5)
		transfer.collect { plan }`))
	p = playScript(t, 2, limit+body(`
		local plan = transfer.prepare { matrix = matrix.from { { 0, 64 }, { 0, 0 } } }
		plan:run(5)
		transfer.collect { plan }
		world.barrier()
		plan:run(5)`), nil)
	if err := p.failed(); fault.KindOf(err) != fault.Threshold {
		t.Error(err)
	}
}
