package result_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

func TestOpen(t *testing.T) {
	d := full(t)
	for _, name := range []string{"r.json", "r.json.gz", "r.json.zst"} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, d.Write(path))
		r, err := result.Open(path)
		must.Do(t, err)
		text, err := io.ReadAll(r)
		var want strings.Builder
		must.Do(t, d.Encode(&want))
		if err != nil || string(text) != want.String() || r.Close() != nil {
			t.Errorf("%s: %v, %d bytes, want %d", name, err, len(text), want.Len())
		}
		in := json.NewDecoder(strings.NewReader(string(text)))
		if err := result.Skip(in); err != nil || result.AtEnd(in) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A pipe is read until its writer is done.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	must.Do(t, unix.Mkfifo(path, 0o600))
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	must.Do(t, err)
	d := full(t)
	d.Values = map[string]any{"x": strings.Repeat("x", 1<<18)} // more than a pipe holds: the reader comes before the end
	go func() {
		d.Encode(pipe)
		pipe.Close()
	}()
	if d, err := result.Read(path); err != nil || d.World.Size != 2 {
		t.Errorf("with a writer: %v", err)
	}
	if pipe, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.Encode(pipe)
		pipe.Close()
	}()
	text, err := result.Open(path)
	must.Do(t, err)
	defer text.Close()
	var want strings.Builder
	must.Do(t, d.Encode(&want))
	if got, err := io.ReadAll(text); err != nil || string(got) != want.String() {
		t.Errorf("as a text: %d bytes, want %d, %v", len(got), want.Len(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	for text, want := range map[string][2]string{
		"":                               {"ends in the middle", "cut off"},
		"[]":                             {"it is no JSON object", "is it a result"},
		"{}":                             {`schema is ""`, "is it a result"},
		`{"a": {"b": [1, 2`:              {"ends in the middle", "cut off"},
		`{"a": [], "schema": 5}`:         {"cannot unmarshal", "is it a result"},
		`{"schema": "perigee.result/0"}`: {`schema is "perigee.result/0", want "perigee.result/1"`, "earlier perigee"},
		`{"schema": "perigee.result/2"}`: {"perigee.result/2", "newer"},
		`{"schema": "perigee.sweep/1"}`:  {`schema is "perigee.sweep/1"`, "is it a result"},
		"\x28\xb5\x2f\xfd":               {"", ""},
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		r, err := result.Open(path)
		if fault.KindOf(err) != fault.Input || r != nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(fault.HintOf(err), want[1]) {
			t.Errorf("%q: got %v (%s), want %s", text, err, fault.HintOf(err), want)
		}
	}
	if _, err := result.Open(path + "gone"); fault.KindOf(err) != fault.Input {
		t.Error(err)
	}
	// Damage after the beginning shows while it is read.
	path += ".gz"
	must.Do(t, full(t).Write(path))
	data := must.Read(t, path)
	must.Do(t, os.WriteFile(path, data[:len(data)-6], 0o644))
	r, err := result.Open(path)
	if err == nil {
		defer r.Close()
		_, err = io.ReadAll(r)
	}
	must.Fail(t, err, fault.Input, path)
}

// The figures are worked out by hand.
func TestFigures(t *testing.T) {
	d := &result.Document{Matrices: []result.Matrix{{}}, Patterns: []result.Pattern{{}, {}}}
	run := func(ns int64) series.Run {
		return series.Run{EndNS: ns, Ranks: []series.RankRun{{EndNS: ns, Bytes: 3e6}}}
	}
	d.AddRuns(0, result.IsolatedPhase, 0, []series.Run{run(1e6), run(3e6)})
	d.AddRuns(0, "workload", 0, []series.Run{run(6e6), run(3e6), run(9e6)})
	d.Finish(nil)
	f := d.Patterns[0].PatternFigures
	if *f.LatencyMS != 6 || *f.IsolatedLatencyMS != 2 || *f.Slowdown != 3 || *f.MeanBandwidth != 3e6/6e-3 {
		t.Errorf("%v %v %v %v", *f.LatencyMS, *f.IsolatedLatencyMS, *f.Slowdown, *f.MeanBandwidth)
	}
	if d.Patterns[1].PatternFigures != (result.PatternFigures{}) {
		t.Errorf("a pattern that has not run: %+v", d.Patterns[1].PatternFigures)
	}
}
