package judge

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
)

func TestFindDeath(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if d := FindDeath(dir, EarlyPatterns); d != nil {
		t.Errorf("%+v", d)
	}
	put("3_output_CTX_0.log", strings.Repeat("x\n", 1<<17)+"0: [E] Traceback (most recent call last):\n0: pickle data was truncated\n")
	if d := FindDeath(dir, EarlyPatterns); d == nil || d.Part != "CTX_0" || d.Code != -1 || !strings.Contains(d.Line, "[E] Traceback") || len(d.Tail) != 2 {
		t.Errorf("%+v", d)
	}
	put("exits/WAIT", "1 node1\n")
	put("exits/EVALUATE", "1 node1\n")
	put("exits/GEN_1", "137 node7\n")
	put("exits/CTX_0", "0 node2\n")
	put("3_output_GEN_1.log", "fine\n"+strings.Repeat("CUDA error: out of memory\n", 100))
	d := FindDeath(dir, EarlyPatterns)
	if d == nil || d.Words() != "GEN_1 on node7 has ended with code 137" || d.Line != "CUDA error: out of memory" || len(d.Tail) != tailLines {
		t.Errorf("%+v", d)
	}
	put("exits/CTX_1", "1 node2\n") // which lost GEN_1
	later := time.Now().Add(time.Second)
	must.Do(t, os.Chtimes(filepath.Join(dir, "exits/CTX_1"), later, later))
	if d := FindDeath(dir, EarlyPatterns); d == nil || d.Part != "GEN_1" {
		t.Errorf("want the first that has ended, got %+v", d)
	}
	put("exits/GEN_1", "143 node7\n") // as Slurm ends it once CLIENT has failed
	put("exits/CTX_1", "143 node2\n")
	put("exits/CLIENT", "3 node1\n")
	before := time.Now().Add(-time.Minute)
	for _, part := range []string{"CLIENT", "WAIT", "EVALUATE"} {
		must.Do(t, os.Chtimes(filepath.Join(dir, "exits", part), before, before))
		before = before.Add(time.Second)
	}
	if d := FindDeath(dir, EarlyPatterns); d == nil || d.Part != "CLIENT" {
		t.Errorf("want what had failed before Slurm ended the servers, got %+v", d)
	}
	put("exits/CTX_1", "9 node2\n")
	if d := FindDeath(dir, EarlyPatterns); d == nil || d.Part != "CTX_1" {
		t.Errorf("want the server that failed by itself, got %+v", d)
	}
	put("8_done_5.txt", "node1\n")
	if d := FindDeath(dir, EarlyPatterns); d != nil {
		t.Errorf("after the end mark: %+v", d)
	}
}

// A server that ends with code 0 before it is ready is named, and its log is shown, not what has waited for it.
func TestServerThatWasNeverReady(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "exits"), 0o755))
	for name, text := range map[string]string{
		"exits/SERVER_0": "0 node7\n", "exits/PROBE": "0 node1\n", "3_output_SERVER_0.log": "starting\nRuntimeError: no such device\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if d := FindDeath(dir, nil); d != nil {
		t.Errorf("nothing waits for it, got %+v", d)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "exits", "WAIT"), []byte("1 node1\n"), 0o644))
	d := FindDeath(dir, nil)
	if d == nil || d.Words() != "SERVER_0 on node7 has ended with code 0 before it was ready" || d.Line != "RuntimeError: no such device" {
		t.Errorf("%+v", d)
	}
}

// An empty mark is that of a part for whose code the disk had no room: it may have failed.
func TestEmptyMark(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "exits"), 0o755))
	for _, c := range []struct{ name, text, want, line string }{
		{"slurm-7.err", "/r/x/task.sh could not be written\n", "", ""},
		{"exits/SCRIPT", "", "SCRIPT has ended, and there was no room on the disk to note how", "/r/x/task.sh could not be written"},
		{"3_output_SERVER_0.log", "write error: No space left on device\n", "SCRIPT has ended, and there was no room on the disk to note how", "/r/x/task.sh could not be written"},
		{"exits/WAIT", "", "SCRIPT has ended, and there was no room on the disk to note how", "/r/x/task.sh could not be written"},
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, c.name), []byte(c.text), 0o644))
		if d := FindDeath(dir, nil); c.want == "" && d != nil || c.want != "" && (d == nil || d.Words() != c.want || d.Line != c.line) {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
	must.Do(t, os.Rename(filepath.Join(dir, "exits/SCRIPT"), filepath.Join(dir, "exits/SERVER_0")))
	if d := FindDeath(dir, nil); d == nil || d.Words() != "SERVER_0 has ended, and there was no room on the disk to note how" ||
		d.Line != "write error: No space left on device" || d.BySlurm() {
		t.Errorf("%+v", d)
	}
}

// Of a long log the end is searched: the nodes are not given back before.
func TestQuoteOfALongLog(t *testing.T) {
	dir := t.TempDir()
	fill := strings.Repeat("step 1 of the server takes its time\n", mostQuoted/36+2)
	for text, want := range map[string]string{
		"error: early\n" + fill[:mostQuoted/2] + "fatal: late\n": "error: early",
		"error: early\n" + fill + "fatal: late\nmore\n":          "fatal: late",
		"error: early\n" + fill + "last":                         "last",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "x.log"), []byte(text), 0o644))
		d := Death{Log: "x.log"}
		if d.quote(dir); d.Line != want {
			t.Errorf("got %q, want %q", d.Line, want)
		}
	}
}

// Of several parts the one counts whose end has led to that of the others.
func TestCause(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for _, c := range []struct{ ended, want string }{
		{"", ""}, {"SERVER_0:0", ""}, {"WAIT:1", "WAIT"}, {"SERVER_0:1 WAIT:1", "SERVER_0"}, {"WAIT:1 SERVER_0:1", "SERVER_0"},
		{"SERVER_0:0 WAIT:1", "SERVER_0"}, {"WAIT:1 SERVER_0:0", "WAIT"}, {"SERVER_1:0 SERVER_0:0 WAIT:1", "SERVER_1"},
		{"SERVER_1:3 SERVER_0:1", "SERVER_1"}, {"CLIENT:3 SERVER_0:143", "CLIENT"}, {"SERVER_0:143 CLIENT:3", "SERVER_0"},
		{"CLIENT:3 SERVER_0:143 SERVER_1:9", "SERVER_1"}, {"CLIENT:0 EVALUATE:2", "EVALUATE"}, {"EVALUATE:2 CLIENT:1", "EVALUATE"},
	} {
		var ended []*Death
		for i, part := range strings.Fields(c.ended) {
			name, code, _ := strings.Cut(part, ":")
			n, err := strconv.Atoi(code)
			must.Do(t, err)
			ended = append(ended, &Death{Part: name, Code: n, Noted: at.Add(time.Duration(i) * time.Second)})
		}
		got := ""
		if d := cause(ended); d != nil {
			got = d.Part
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.ended, got, c.want)
		}
	}
}
