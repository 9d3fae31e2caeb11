package contention

import (
	"math"
	"testing"

	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// run is one of a message that takes so long, of which a thread waits a part.
type run struct {
	took, part float64
	polls      float64 // of the thread that polls; NaN where that moves the bytes
}

// played is a result in which two patterns overlap: their runs alone and in the workload.
func played(alone, workload []run) *result.Document {
	d := &result.Document{Overlaps: true, Patterns: []result.Pattern{{}, {}}}
	add := func(pattern int, phase string, i int, r run) {
		p := series.PeerRun{Peer: 2, EndNS: int64(r.took)}
		if !math.IsNaN(r.part) {
			ns := int64(r.part * r.took)
			p.CPUWaitNS = &ns
			if !math.IsNaN(r.polls) {
				own := int64(r.polls * r.took)
				p.PollWaitNS = &own
			}
		}
		if phase != result.IsolatedPhase {
			p.Overlap = &series.Overlap{Share: 1, Messages: 1, Shared: "receiver"}
		}
		d.AddRuns(pattern, phase, i, []series.Run{{EndNS: p.EndNS, Ranks: []series.RankRun{{Rank: pattern, EndNS: p.EndNS,
			Peers: []series.PeerRun{p}}}}})
	}
	for pattern := range 2 {
		for i, r := range alone {
			add(pattern, result.IsolatedPhase, i, r)
		}
		for i, r := range workload {
			add(pattern, "workload", i, r)
		}
	}
	return d
}

// W and E as in the table of experiments that the limits come from: a run alone of 1 ms, and one of the workload.
func TestWaits(t *testing.T) {
	nan := math.NaN()
	alone := func(part float64) []run { return []run{{1e6, part, 0.9}, {1e6, part, 0.9}, {1.2e6, part, 0.9}} }
	for name, c := range map[string]struct {
		alone, workload []run
		w, e            float64
		want            CPUs
	}{
		"the network":                         {alone(0.05), []run{{4e6, 0.1, 0.95}, {4e6, 0.1, 0.95}}, 0.1, 0.35 / 3, CPUsRemark},
		"the edge of the network's runs":      {alone(0.12), []run{{2e6, 0.14, 0.95}}, 0.14, 0.16, CPUsRemark},
		"CPUs":                                {alone(0.3), []run{{4e6, 0.7, 0.9}}, 0.7, 2.5 / 3, CPUsCause},
		"the edge of the CPUs' runs":          {alone(0.14), []run{{2e6, 0.37, 0.9}}, 0.37, 0.6, CPUsCause},
		"other programs, alone, too":          {alone(0.5), []run{{1.2e6, 0.5, 0.9}}, 0.5, 0.5, CPUsCause},
		"the network, with waits in both":     {alone(0.4), []run{{4e6, 0.4, 0.9}}, 0.4, 0.4, CPUsPartly},
		"two on a link, with waits in both":   {alone(0.4), []run{{1.8e6, 0.36, 0.9}}, 0.36, 0.31, CPUsPartly},
		"two whose CPUs are busy, alone, too": {alone(0.55), []run{{1.9e6, 0.6, 0.9}}, 0.6, 0.656, CPUsCause},
		"the same, with alone as bad":         {alone(0.6), []run{{1.9e6, 0.55, 0.9}}, 0.55, 0.494, CPUsCause},
		"as fast as alone, and waiting":       {alone(0.5), []run{{1e6, 0.5, 0.9}}, 0.5, nan, CPUsCause},
		"as fast as alone, and waiting now":   {alone(0.2), []run{{1e6, 0.5, 0.9}}, 0.5, nan, CPUsCause},
		"as fast as alone":                    {alone(0.1), []run{{1e6, 0.1, 0.9}}, 0.1, nan, CPUsRemark},
		"both":                                {alone(0.1), []run{{3e6, 0.32, 0.9}}, 0.32, 0.43, CPUsPartly},
		"a kernel that does not count":        {[]run{{1e6, nan, nan}}, []run{{4e6, nan, nan}}, nan, nan, CPUsUnknown},
		"the thread that posts copies":        {[]run{{1e6, 0.1, nan}}, []run{{3e6, 0.3, nan}}, 0.3, 0.4, CPUsRemark},
		"and waits for a CPU":                 {[]run{{1e6, 0.1, nan}}, []run{{3e6, 0.5, nan}}, 0.5, 0.7, CPUsCause},
	} {
		t.Run(name, func(t *testing.T) {
			near := func(got, want float64) bool { return math.IsNaN(want) && math.IsNaN(got) || math.Abs(got-want) < 0.01 }
			got := Of(played(c.alone, c.workload)).Waits()
			if !near(float64(got.Workload), c.w) || !near(float64(got.Slowdown), c.e) || got.CPUs() != c.want {
				t.Errorf("%+v: %s; want %v, %v: %s", got, got.CPUs(), c.w, c.e, c.want)
			}
		})
	}
}

// What polls counts where the bytes go through the memory of a machine, as the ways at the end of a result say.
func TestWaitsOfCopies(t *testing.T) {
	d := played([]run{{1e6, 0.01, 0.1}}, []run{{3e6, 0.01, 0.6}})
	if got := Of(d).Waits(); got.CPUs() != CPUsRemark {
		t.Errorf("the way is not known: %+v", got)
	}
	d.Paths = &result.Paths{Uses: []result.PathUse{{Transport: "cma"}}}
	if got := Of(d).Waits(); got.CPUs() != CPUsCause || !got.Copies {
		t.Errorf("cma: %+v", got)
	}
	d.Paths.Uses[0].Transport = "tcp"
	if got := Of(d).Waits(); got.CPUs() != CPUsRemark {
		t.Errorf("tcp: %+v", got)
	}
}

// With fewer CPUs than ranks copies count as all others do; where nothing is known, the CPUs are all there is.
func TestWaitsOfFewCPUs(t *testing.T) {
	d := played([]run{{1e6, 0.1, math.NaN()}}, []run{{3e6, 0.3, math.NaN()}})
	d.World.Hosts = []result.Host{{Name: "h", Ranks: []int{0, 1, 2}, CPUs: 2}}
	if got := Of(d).Waits(); got.CPUs() != CPUsPartly ||
		got.Crowded() != "the threads that move the bytes wait for a CPU for 30 % of the time, which is 40 % of the slowdown" {
		t.Errorf("%+v: %s", got, got.Crowded())
	}
	for _, m := range d.Measurements {
		m.Ranks[0].Peers[0].CPUWaitNS = nil
	}
	if got := Of(d).Waits(); got.Crowded() != "h has 2 CPUs for 3 ranks" {
		t.Errorf("%+v: %s", got, got.Crowded())
	}
	host := &d.World.Hosts[0]
	host.CPUs, host.Machine = 8, &result.Machine{Hosts: []string{"h", "i"}, Ranks: 6, CPUs: 4}
	if got := Of(d).Waits(); got.Crowded() != "h and i are one machine, with 4 CPUs for 6 ranks" {
		t.Errorf("%+v: %s", got, got.Crowded())
	}
}

// Runs that are not kept one by one count as the others do.
func TestWaitsOfManyRuns(t *testing.T) {
	var alone, workload []run
	for i := range 50 {
		alone, workload = append(alone, run{1e6, 0.1, 0.5}), append(workload, run{3e6, 0.2 + 0.01*float64(i%10), 0.5})
	}
	want := Of(played(alone, workload)).Waits()
	defer func(n int) { mostPending = n }(mostPending)
	mostPending = 20
	got := Of(played(alone, workload)).Waits()
	if math.Abs(float64(got.Workload-want.Workload)) > 0.01 || math.Abs(float64(got.Slowdown-want.Slowdown)) > 0.01 || got.Alone != want.Alone {
		t.Errorf("%+v, want %+v", got, want)
	}
}
