package metric

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// pathsOf is a result with uses, each given as op, reach and transports.
func pathsOf(unknown string, uses ...[3]string) *result.Document {
	p := &result.Paths{Source: "UCX 1.23.0", Unknown: unknown}
	for _, u := range uses {
		p.Uses = append(p.Uses, result.PathUse{Op: u[0], Local: "dram", Remote: "dram", Reach: u[1], Transport: u[2],
			Device: "mlx5_0:1", How: "zero-copy", Count: 50})
	}
	return &result.Document{Paths: p}
}

func TestJudgePath(t *testing.T) {
	rc, verbs := [3]string{"WRITE", "network", "rc_mlx5"}, [3]string{"READ", "network", "rc_verbs"}
	cma, both := [3]string{"WRITE", "host", "cma"}, [3]string{"WRITE", "network", "rc_mlx5, tcp"}
	for _, test := range []struct {
		limit string
		d     *result.Document
		ok    bool
		says  string
	}{
		{`path == "rc"`, pathsOf("", rc, verbs), true, "it is rc_mlx5 50 %, rc_verbs 50 %"},
		{`path == "rc_mlx5"`, pathsOf("", rc, verbs), false, "it is rc_mlx5 50 %"},
		{`path == "r"`, pathsOf("", rc), false, "it is rc_mlx5 100 %"},
		{`path == "rc"`, pathsOf("", rc, cma), false, "cma 50 %"},
		{`path{reach="network"} == "rc"`, pathsOf("", rc, cma), true, "rc_mlx5 100 %"},
		{`path{op="READ"} == "rc"`, pathsOf("", rc), false, "no path of the result is chosen"},
		{`path == "rc"`, pathsOf("", both), false, "rc_mlx5, tcp 100 %"},
		{`path != "tcp"`, pathsOf("", both), false, "tcp"},
		{`path != "tcp"`, pathsOf("", rc, cma), true, "rc_mlx5"},
		{`path =~ "^(rc|cma)"`, pathsOf("", rc, cma), true, "cma"},
		{`path =~ "^rc"`, pathsOf("", both), false, "tcp"},
		{`path !~ "tcp|posix"`, pathsOf("", both), false, "tcp"},
		{`path{how != "zero-copy"} != "rc"`, pathsOf("", rc), false, "no path"},
		{`path != "tcp"`, pathsOf("a reason", rc), false, "rc_mlx5"},
		{`path != "tcp"`, pathsOf("", [3]string{"READ", "host", "unknown"}), false, "unknown"},
		{`path != "tcp"`, &result.Document{}, false, "does not say"},
	} {
		l, err := ReadThreshold(test.limit, nil)
		must.Do(t, err)
		o := l.Judge(test.d)
		if o.Passed != test.ok || !strings.Contains(o.String(), test.says) {
			t.Errorf("%s: passed %v, %s", test.limit, o.Passed, o)
		}
		if o.Note != "" != (test.d.Paths != nil && test.d.Paths.Unknown != "") {
			t.Errorf("%s: note %q", test.limit, o.Note)
		}
		if again, err := Parse(l.String()); err != nil || again.String() != l.String() {
			t.Errorf("%s is written as %s: %v", test.limit, l, err)
		}
	}
}

func TestParsePath(t *testing.T) {
	for text, want := range map[string]string{
		`path`:                      `wanted ==, !=, =~ or !~`,
		`path < 3`:                  `wanted ==, !=, =~ or !~`,
		`path == rc`:                `wanted a transport in quotes`,
		`path =~ "("`:               `missing closing )`,
		`path == "rc" abort`:        `judged at the end of a run`,
		`path{phase="x"} == "rc"`:   `no column "phase": want op, local`,
		`path{size=4}.p50 < 3`:      `path takes no aggregate: wanted a transport, as in path == "cma"`,
		`path.max == "cma"`:         `path takes no aggregate: wanted a transport, as in path == "cma"`,
		`latency_ms == "rc"`:        `wanted a dot and an aggregate`,
		`path == "rc" && path == 1`: `wanted the end`,
	} {
		if _, err := ReadThreshold(text, nil); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	own := []result.MetricDef{{Name: "path"}}
	if l, err := ReadThreshold(`path{size=4}.p50 < 3`, own); err != nil || l.Transport != nil {
		t.Errorf("a scenario's metric of this name: %v, %v", l, err)
	}
	if l, err := ParseCondition("path", `== "rc"`); err != nil || l.String() != `path == "rc"` {
		t.Errorf("in a script: %v, %v", l, err)
	}
	if l, _ := Parse(`path == "rc"`); l.AbortAfter == 0 {
		l.AbortAfter = 1
		if err := l.Abortable(); fault.KindOf(err) != fault.Usage {
			t.Errorf("abort in a script: %v", err)
		}
	}
}
