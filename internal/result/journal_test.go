package result_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// readJournal reads one, without the note that says so.
func readJournal(t testing.TB, path string) (*result.Document, error) {
	t.Helper()
	d, err := result.Read(path)
	if err != nil {
		return nil, err
	}
	if n := len(d.Notes); n == 0 || !strings.Contains(d.Notes[n-1], "read from "+path) {
		t.Fatalf("notes %q", d.Notes)
	}
	if d.Notes = d.Notes[:len(d.Notes)-1]; len(d.Notes) == 0 {
		d.Notes = nil
	}
	return d, nil
}

// A journal gives back the document as it was when something was last added, whatever has changed by then.
func TestJournal(t *testing.T) {
	d := full(t)
	path := filepath.Join(t.TempDir(), "r.json.part")
	j, err := result.NewJournal(path)
	must.Do(t, err)
	ns := func(v int64) *int64 { return &v }
	for step, change := range []func() []int{
		func() []int { return nil },
		func() []int {
			d.AddRuns(0, "other", 0, []series.Run{{StartNS: 5, EndNS: 4, Filled: true, AgreedNS: ns(3), StartSkewNS: ns(0), BarrierExitSkewNS: ns(-1),
				Ranks: []series.RankRun{{Rank: 1, LateNS: 7}, {Rank: 0, Peers: []series.PeerRun{{MayMeetNS: ns(9)}}}}}})
			d.Phases = append(d.Phases, result.Phase{Name: "other", StartNS: 8})
			return nil
		},
		func() []int {
			to := &d.Measurements[0].Ranks[0].Peers[0]
			to.Overlap = &series.Overlap{Share: 0.25, Messages: 3, Shared: "sender", FirstNS: 2, By: []series.OverlapBy{{Resource: "sender", Share: 0.25, Messages: 3}}}
			return []int{0, 0}
		},
		func() []int {
			d.Values["v"] = append(d.Values["v"].([]any), map[string]any{"n": int64(1), "times": []any{1.5}})
			d.Values["w"] = map[string]any{}
			d.Tables[0].Rows = append(d.Tables[0].Rows, []any{"y", 2.5})
			d.Tables = append(d.Tables, result.Table{Columns: []string{"C"}, Rows: [][]any{}})
			d.AddSample("empty", 1, 2)
			return nil
		},
		func() []int {
			d.Values["v"].([]any)[2] = map[string]any{"n": int64(2), "times": []any{1.5, 2.5}, "new": nil}
			d.Tables[1].Rows = append(d.Tables[1].Rows, []any{nil})
			d.Lanes = append(d.Lanes, result.Lanes{Phase: "work"})
			d.AddStorage(0, "work", []series.StorageRun{{Op: "READ", EndNS: 1}})
			d.AddText("d.yaml", []byte("b: 2"))
			must.Do(t, d.AddLabelled("empty", result.Labels{"a": "b"}, 3, 4))
			return nil
		},
		func() []int {
			d.Values["v"].([]any)[2] = map[string]any{"times": []any{2.5}}
			d.Notes, d.Failure = nil, nil
			return nil
		},
	} {
		changed := change()
		must.Do(t, j.Append(d, changed))
		got, err := readJournal(t, path)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if diff := cmp.Diff(asJSON(t, d), asJSON(t, got)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", step, diff)
		}
	}
	must.Do(t, j.Restart(d))
	d.AddRuns(0, "other", 1, []series.Run{{StartNS: 9}})
	must.Do(t, j.Append(d, nil))
	if got, err := readJournal(t, path); err != nil || cmp.Diff(asJSON(t, d), asJSON(t, got)) != "" {
		t.Errorf("written anew: %v", err)
	}
	if err := j.Remove(); err != nil {
		t.Error(err)
	}
}

// randomRun fills all that a run may have.
func randomRun(r *rand.Rand) series.Run {
	n := func() int64 { return r.Int64() >> r.IntN(64) }
	maybe := func() *int64 {
		if r.IntN(2) == 0 {
			return nil
		}
		v := n()
		return &v
	}
	run := series.Run{StartNS: n(), EndNS: n(), UncertaintyNS: n(), BarrierExitSkewNS: maybe(), StartSkewNS: maybe(), Filled: r.IntN(2) == 0, AgreedNS: maybe()}
	for range r.IntN(3) {
		k := series.RankRun{Rank: r.IntN(9), StartNS: n(), PostNS: n(), EndNS: n(), Bytes: n(), LateNS: n()}
		for range r.IntN(3) {
			p := series.PeerRun{Peer: r.IntN(9), Bytes: n(), EndNS: n(), MayMeetNS: maybe(), CPUWaitNS: maybe(), PollWaitNS: maybe()}
			if r.IntN(2) == 0 {
				p.Overlap = &series.Overlap{Share: r.Float64(), Messages: r.IntN(9), Shared: series.Resources[r.IntN(4)], FirstNS: n()}
				for range r.IntN(3) {
					p.Overlap.By = append(p.Overlap.By, series.OverlapBy{Resource: series.Resources[r.IntN(4)], Share: r.Float64(), Messages: r.IntN(9)})
				}
			}
			k.Peers = append(k.Peers, p)
		}
		run.Ranks = append(run.Ranks, k)
	}
	return run
}

// Measurements come back to the bit, however they are spread over records, and however often they change.
func TestJournalOfRuns(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		j, err := result.NewJournal(path)
		must.Do(rt, err)
		defer j.Remove()
		d := full(t)
		for range 1 + r.IntN(4) {
			known := len(d.Measurements)
			for i := range r.IntN(5) {
				d.AddRuns(0, fmt.Sprint("phase ", r.IntN(3)), i, []series.Run{randomRun(r)})
			}
			var changed []int
			if known > 0 && r.IntN(2) == 0 {
				changed = []int{r.IntN(known)}
				again := &d.Measurements[changed[0]]
				again.Run = randomRun(r)
				again.LatencyNS, again.MeanBandwidth = again.Run.LatencyNS(), again.Run.MeanBandwidth()
			}
			must.Do(rt, j.Append(d, changed))
		}
		got, err := readJournal(t, path)
		must.Do(rt, err)
		if diff := cmp.Diff(asJSON(t, d), asJSON(t, got)); diff != "" {
			rt.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// Wherever a journal is cut off, and whatever fills the rest, what was whole is there: never less than before, and
// nothing that was not written.
func TestTornJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json.part")
	j, err := result.NewJournal(path)
	must.Do(t, err)
	d := full(t)
	d.Scenario.Source, d.Replay = "", nil
	var states []string
	var sizes []int
	for i := range 4 {
		d.AddRuns(0, "work", i, []series.Run{{StartNS: int64(i), EndNS: 9, Ranks: []series.RankRun{{Rank: 1}}}})
		d.AddSample("own", float64(i), 1)
		must.Do(t, j.Append(d, nil))
		info, err := os.Stat(path)
		must.Do(t, err)
		states, sizes = append(states, asJSON(t, d)), append(sizes, int(info.Size()))
	}
	whole := must.Read(t, path)
	torn := filepath.Join(dir, "torn")
	for cut := range len(whole) + 1 {
		for name, tail := range map[string][]byte{"cut": nil, "zeros": make([]byte, 20), "noise": []byte("mmmm\x01\x00\x00\x00xxxxxxxxxx")} {
			if tail != nil && cut%16 > 0 {
				continue
			}
			must.Do(t, os.WriteFile(torn, slices.Concat(whole[:cut], tail), 0o644))
			got, err := result.Read(torn)
			state, _ := slices.BinarySearch(sizes, cut+1) // how many appends are whole
			if err != nil {
				// A journal begins with a record of the document, and it is one of measurements that follows.
				if fault.KindOf(err) != fault.Input || state > 0 {
					t.Fatalf("%s at %d of %d: %v", name, cut, len(whole), err)
				}
				continue
			}
			got.Notes = got.Notes[:len(got.Notes)-1]
			have := len(got.Measurements)
			if least := state + 1; state > 0 && have < least {
				t.Fatalf("%s at %d of %d: %d measurements, wanted at least %d", name, cut, len(whole), have, least)
			}
			if slices.Contains(sizes, cut) && asJSON(t, got) != states[state-1] {
				t.Fatalf("%s at %d: %s", name, cut, cmp.Diff(states[state-1], asJSON(t, got)))
			}
		}
	}
}

// A result that is not there is read from its journal; one that is there is what counts.
func TestResultBeforeJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json.zst")
	j, err := result.NewJournal(path + result.PartEnding)
	must.Do(t, err)
	if _, err := result.Read(path); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "journal in which nothing is yet") {
		t.Errorf("an empty one: %v", err)
	}
	d := full(t)
	must.Do(t, j.Append(d, nil))
	if got, err := result.Read(path); err != nil || got.Seed != d.Seed || !strings.Contains(strings.Join(got.Notes, ""), "may lack the last two seconds") {
		t.Errorf("%+v, %v", got, err)
	}
	text, err := result.Open(path)
	must.Do(t, err)
	if err := text.Close(); err != nil { // before its end
		t.Error(err)
	}
	d.Seed++
	must.Do(t, d.Write(path))
	if got, err := result.Read(path); err != nil || got.Seed != d.Seed || len(got.Notes) != len(d.Notes) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzJournal(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "f.part")
	j, err := result.NewJournal(path)
	must.Do(f, err)
	d := full(f)
	d.Replay = nil
	for range 2 {
		d.AddRuns(0, "work", 0, []series.Run{randomRun(rand.New(rand.NewPCG(1, 2)))})
		must.Do(f, j.Append(d, []int{0}))
		d.Values["v"] = append(d.Values["v"].([]any), 1.5)
	}
	whole := must.Read(f, path)
	f.Add(uint16(0), []byte(nil), whole)
	f.Add(uint16(1), []byte(`[{"at":["measurements",0],"set":1}]`), whole)
	f.Add(uint16(1), []byte(`[{"at":["values","v",-1],"add":[1]},{"at":[],"set":1},{"at":["metrics",1e300,"x"],"set":{}}]`), whole)
	f.Add(uint16(2), []byte("\x00\x00\x00\x01a"), whole)
	f.Fuzz(func(t *testing.T, kind uint16, record, data []byte) {
		text := bytes.NewBuffer(data)
		if kind > 0 { // a record of which the sum is right
			text = bytes.NewBuffer(slices.Clone(whole))
			result.AppendRecord(text, "cma?"[kind%4], record)
		}
		must.Do(t, os.WriteFile(path, text.Bytes(), 0o644))
		if got, err := result.Read(path); err == nil && got.World.Size < 1 || err != nil && fault.KindOf(err) != fault.Input {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A journal that is newer than the result beside it is named, so that no one takes the old one for the latest.
func TestNewerPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	write := func(name string, at time.Time) {
		must.Do(t, os.WriteFile(name, nil, 0o644))
		must.Do(t, os.Chtimes(name, at, at))
	}
	now := time.Now()
	write(path, now)
	if got := result.NewerPart(path); got != "" {
		t.Errorf("without a journal: %q", got)
	}
	write(path+".part", now.Add(-time.Second))
	if got := result.NewerPart(path); got != "" {
		t.Errorf("an older journal: %q", got)
	}
	write(path+".part", now.Add(time.Second))
	if got := result.NewerPart(path); got != path+".part" {
		t.Errorf("a newer journal: %q", got)
	}
}

// Of numbers that are added to a long list a journal takes those alone, and gives back all of them.
func TestJournalOfNumbers(t *testing.T) {
	d := full(t)
	short, long := &result.Numbers{}, &result.Numbers{}
	for i := range 100_000 {
		long.Append(float64(i) / 7)
	}
	entry := map[string]any{"long": long, "short": short, "mean": 1.5}
	d.Values = map[string]any{"ep": []any{entry}}
	path := filepath.Join(t.TempDir(), "r.json.part")
	j, err := result.NewJournal(path)
	must.Do(t, err)
	sizes := []int64{}
	for step := range 3 {
		if step > 0 {
			entry = map[string]any{"long": long, "short": short, "mean": 1.5 + float64(step)} // another map of the same lists
			d.Values["ep"] = []any{entry}
			long.Append(float64(step), 0.25)
			short.Append(float64(step))
		}
		must.Do(t, j.Append(d, nil))
		got, err := readJournal(t, path)
		must.Do(t, err)
		of := got.Values["ep"].([]any)[0].(map[string]any)
		list := of["long"].([]any)
		if len(list) != 100_000+2*step || len(of["short"].([]any)) != step || of["mean"] != entry["mean"] ||
			step > 0 && (list[len(list)-2] != float64(step) || list[len(list)-1] != 0.25) {
			t.Errorf("step %d: %d and %d numbers, mean %v", step, len(list), len(of["short"].([]any)), of["mean"])
		}
		info, err := os.Stat(path)
		must.Do(t, err)
		sizes = append(sizes, info.Size())
	}
	if sizes[0] < 1e6 || sizes[2]-sizes[0] > 1000 {
		t.Errorf("the journal has %v bytes", sizes)
	}
}

// The last of the lanes may be measured further. Others are not told again.
func TestJournalOfLanes(t *testing.T) {
	d := full(t)
	lanes := func(block int64, n int) result.Lanes {
		return result.Lanes{Phase: "measure", Measurement: series.Measurement{BlockBytes: block, Iterations: n, Asked: 100}}
	}
	path := filepath.Join(t.TempDir(), "r.json.part")
	j, err := result.NewJournal(path)
	must.Do(t, err)
	for step, list := range [][]result.Lanes{
		nil, {lanes(1, 5)}, {lanes(1, 7)}, {lanes(1, 7)}, {lanes(1, 100), lanes(2, 1)}, {lanes(1, 100), lanes(2, 3)}, {lanes(1, 100), lanes(2, 4), lanes(3, 1), lanes(4, 1)},
	} {
		if d.Lanes = list; step == 5 {
			must.Do(t, j.Restart(d))
		}
		before, _ := os.ReadFile(path)
		must.Do(t, j.Append(d, nil))
		after, _ := os.ReadFile(path)
		if same := step == 3 || step == 5; same != (len(after) == len(before)) {
			t.Errorf("step %d: %d bytes are new", step, len(after)-len(before))
		}
		got, err := readJournal(t, path)
		must.Do(t, err)
		if diff := cmp.Diff(list, got.Lanes); diff != "" {
			t.Errorf("step %d: %s", step, diff)
		}
	}
}
