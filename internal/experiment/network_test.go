package experiment

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/nixl/device"
	"perigee/spmd"
)

// counting is an experiment of one rank and the counters of its host, which the test changes.
func counting(t *testing.T, read func() device.Counters) (*Experiment, *bytes.Buffer) {
	t.Helper()
	worlds, _ := spmd.NewInMemory(1)
	out := &bytes.Buffer{}
	return Begin(Config{World: worlds[0], Out: out, Network: read}), out
}

// port has counters of one RDMA port and of TCP.
func port(sent, cnp, lost int64) device.Counters {
	return device.Counters{TCP: map[string]int64{"retransmits": lost}, NICs: []device.NICCounters{
		{Name: "mlx5_0:1", Mbps: 5, Sent: sent, Received: 2 * sent, Congestion: map[string]int64{"cnp_received": cnp}}}}
}

// A window has what was counted between two edges. What came before the first phase is in none, and to begin the phase
// that there is does not end it.
func TestWindows(t *testing.T) {
	now, looks := port(1000, 5, 7), 0
	e, out := counting(t, func() device.Counters { looks++; return now })
	now = port(1500, 6, 7)
	e.BeginPhase("prepare")
	now = port(1600, 6, 8)
	e.BeginPhase("workload")
	e.Doc.Measurements = []result.Measurement{{Phase: "workload"}}
	now = port(1700, 10, 8)
	e.BeginPhase("workload")
	now = port(1800, 20, 9)
	must.Do(t, e.Observe())
	var got []string
	last := int64(0)
	for _, w := range e.Doc.Network.Windows {
		got = append(got, fmt.Sprintf("%d %s %v %v %s", w.Host, w.Phase, w.TCP, w.NICs, w.Note))
		if w.StartNS < last || w.EndNS < w.StartNS {
			t.Errorf("from %d to %d, after %d", w.StartNS, w.EndNS, last)
		}
		last = w.EndNS
	}
	want := []string{
		"0 prepare map[retransmits:1] [{mlx5_0:1 5 100 200 map[cnp_received:0]}] ",
		"0 workload map[retransmits:1] [{mlx5_0:1 5 200 400 map[cnp_received:14]}] ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if looks != 4 {
		t.Errorf("%d looks, want one at the beginning, two at edges and one at the end", looks)
	}
	const line = "# network: workload: 14 congestion notifications received on mlx5_0:1 of "
	if !strings.HasPrefix(out.String(), line) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("it prints %q", out)
	}
	if len(e.Doc.Phases) != 3 {
		t.Errorf("%d phases in the result", len(e.Doc.Phases))
	}
}

// A run without phases has one window, one with thousands no more than the bound, which has all that was counted.
func TestManyWindows(t *testing.T) {
	for phases, windows := range map[int]int{0: 1, 1: 1, 199: 199, 200: 200, 5000: 200} {
		looks := int64(0)
		e, _ := counting(t, func() device.Counters { looks++; return port(looks, 0, 0) })
		for i := range phases {
			e.BeginPhase(fmt.Sprint(i))
		}
		must.Do(t, e.Observe())
		list := e.Doc.Network.Windows
		if len(list) != windows || looks > int64(windows)+2 {
			t.Errorf("%d phases: %d windows, %d looks", phases, len(list), looks)
			continue
		}
		var sent int64
		for _, w := range list {
			sent += w.NICs[0].Sent
		}
		if sent != int64(windows) {
			t.Errorf("%d phases: %d bytes in %d windows of one each", phases, sent, windows)
		}
		if last := list[len(list)-1].Phase; phases == 5000 && last != laterPhases || phases == 199 && last != "198" || phases == 0 && last != result.FirstPhase {
			t.Errorf("%d phases: the last window is %q", phases, last)
		}
	}
}

// A driver that does not answer costs one wait: the run goes on, and the result says that nothing is known.
func TestCountersThatBlock(t *testing.T) {
	for _, at := range []int64{1, 2, 3} {
		var looks atomic.Int64
		e, _ := counting(t, func() device.Counters {
			n := looks.Add(1)
			if n == at {
				select {}
			}
			return port(n, 0, 0)
		})
		began := time.Now()
		for _, name := range []string{"a", "b", "c", "d"} {
			e.BeginPhase(name)
		}
		must.Do(t, e.Observe())
		if took := time.Since(began); took > 2*lookLimit {
			t.Errorf("it took %v", took)
		}
		late := slices.DeleteFunc(slices.Clone(e.Doc.Network.Windows), func(w result.NetworkWindow) bool { return w.Note == "" })
		if len(late) != 1 || late[0].Note != tooLate || late[0].NICs != nil {
			t.Errorf("look %d: %+v", at, e.Doc.Network.Windows)
		}
		if n := looks.Load(); n != at {
			t.Errorf("%d looks, though number %d did not return", n, at)
		}
	}
}
