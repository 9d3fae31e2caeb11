package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

func toJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must.Do(t, err)
	return string(b)
}

func measurementsOf(t testing.TB, d *result.Document) (list []string) {
	for i := range d.Measurements {
		list = append(list, toJSON(t, &d.Measurements[i]))
	}
	return list
}

// collect scans a file and keeps what it is handed.
func collect(t testing.TB, path string) (*result.Document, []string, error) {
	t.Helper()
	var list []string
	d, err := result.Scan(path, func(_ *result.Document, m *result.Measurement) error {
		list = append(list, toJSON(t, m))
		return nil
	})
	return d, list, err
}

// many has measurements of different shapes, so that nothing of one may be left
// in the next.
func many(t testing.TB) *result.Document {
	d := full(t)
	d.AddRuns(0, "alone", 0, []series.Run{
		{StartNS: 1, EndNS: 9, Ranks: []series.RankRun{
			{Rank: 0, StartNS: 1, PostNS: 2, EndNS: 9, Bytes: 10, Peers: []series.PeerRun{{Peer: 1, Bytes: 10, EndNS: 9}, {Peer: 0, EndNS: 4}}},
			{Rank: 1, StartNS: 1, PostNS: 2, EndNS: 5, Bytes: 3, Peers: []series.PeerRun{{Peer: 0, Bytes: 3, EndNS: 5}}},
		}},
		{StartNS: 3, EndNS: 4, Ranks: []series.RankRun{{Rank: 1, EndNS: 4, Bytes: 7, Peers: []series.PeerRun{{Bytes: 7}}}}},
		{StartNS: 5, EndNS: 6, Ranks: []series.RankRun{{EndNS: 6}, {Rank: 1, Peers: []series.PeerRun{{Peer: 1}, {Peer: 1}}}}},
	})
	return d
}

func TestScanHandsOutWhatReadKeeps(t *testing.T) {
	d := many(t)
	for _, name := range []string{"r.json", "r.json.gz", "r.json.zst"} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, d.Write(path))
		want, err := result.Read(path)
		must.Do(t, err)
		got, list, err := collect(t, path)
		must.Do(t, err)
		if diff := cmp.Diff(measurementsOf(t, want), list); diff != "" || len(list) != 4 {
			t.Errorf("%s: measurements (-want +got):\n%s", name, diff)
		}
		want.Measurements = nil
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
			t.Errorf("%s: the rest (-want +got):\n%s", name, diff)
		}
	}
}

// Tools such as jq sort the members, so that measurements come before patterns.
func TestScanInAnyOrder(t *testing.T) {
	var members map[string]any
	must.Do(t, json.Unmarshal([]byte(asJSON(t, many(t))), &members))
	path := filepath.Join(t.TempDir(), "sorted.json")
	if err := os.WriteFile(path, []byte(toJSON(t, members)), 0o644); err != nil { // maps are written in the order of their keys
		t.Fatal(err)
	}
	_, list, err := collect(t, path)
	must.Do(t, err)
	must.Equal(t, measurementsOf(t, many(t)), list)
}

func TestScanRefuses(t *testing.T) {
	good := asJSON(t, many(t))
	for name, c := range map[string]struct{ text, want, hint string }{
		"empty":              {"", "it ends in the middle", "get it again"},
		"cut off":            {good[:len(good)*2/3], fmt.Sprintf("it ends in the middle: %d bytes of its JSON can be read, with ", len(good)*2/3), "get it again"},
		"no JSON":            {"<html>", "invalid character", "is it a result"},
		"a list":             {"[]", "no JSON object", "is it a result"},
		"something else":     {`{"a":1}`, `schema is "", want "perigee.result/1"`, "is it a result"},
		"another schema":     {`{"schema":"perigee.sweep/1"}`, `schema is "perigee.sweep/1"`, "is it a result"},
		"newer":              {`{"schema":"perigee.result/2","status":{"new":"shape"}}`, "this perigee (schema perigee.result/1) is older", "newer perigee"},
		"twice":              {`{"schema":"perigee.result/1","schema":"perigee.result/1"}`, "schema is there twice", "is it a result"},
		"two documents":      {good + good, "after the end of the document comes {", "is it a result"},
		"no such pattern":    {strings.Replace(good, `"pattern": 0`, `"pattern": 9`, 1), "measurements[0]: there is no pattern 9", "is it a result"},
		"no such matrix":     {strings.Replace(good, `"matrix": 0`, `"matrix": -1`, 1), ": there is no matrix -1", "is it a result"},
		"before the first":   {strings.Replace(good, `"iteration": 0`, `"iteration": -1`, 1), ": its iteration is -1", "is it a result"},
		"measurements are 5": {`{"schema":"perigee.result/1","measurements":5}`, "measurements is no list", "is it a result"},
	} {
		path := filepath.Join(t.TempDir(), "r.json")
		must.Do(t, os.WriteFile(path, []byte(c.text), 0o644))
		_, _, err := collect(t, path)
		if fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.HintOf(err), c.hint) {
			t.Errorf("%s: got %v (hint %s), want %s (hint %s)", name, err, fault.HintOf(err), c.want, c.hint)
		}
	}
}

func TestScanOfAnInterruptedCopy(t *testing.T) {
	d := many(t)
	dir := t.TempDir()
	for _, name := range []string{"r.json", "r.json.gz", "r.json.zst"} {
		path, cutOff := filepath.Join(dir, name), filepath.Join(dir, "cut")
		must.Do(t, d.Write(path))
		whole := must.Read(t, path)
		for cut := range len(bytes.TrimRight(whole, "\n")) {
			if name == "r.json" && cut%7 > 0 {
				continue // there is more of it, and less to go wrong
			}
			must.Do(t, os.WriteFile(cutOff, whole[:cut], 0o644))
			if _, _, err := collect(t, cutOff); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), cutOff+": it ends in the middle: ") || fault.HintOf(err) == "" {
				t.Fatalf("%s, %d of %d bytes: got %v", name, cut, len(whole), err)
			}
		}
	}
	path := filepath.Join(dir, "r.json.zst")
	whole := must.Read(t, path)
	must.Do(t, os.WriteFile(path, slices.Concat(whole[:len(whole)/2], bytes.Repeat([]byte{0x55}, 40)), 0o644))
	if _, _, err := collect(t, path); fault.KindOf(err) != fault.Input {
		t.Errorf("rubbish in the middle: got %v", err)
	}
}

func TestScanStopsWhereTheVisitorFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	must.Do(t, many(t).Write(path))
	boom, calls := errors.New("boom"), 0
	_, err := result.Scan(path, func(*result.Document, *result.Measurement) error {
		calls++
		if calls == 2 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) || calls != 2 || !strings.Contains(err.Error(), "measurements[1]: boom") {
		t.Errorf("got %v after %d calls", err, calls)
	}
}
