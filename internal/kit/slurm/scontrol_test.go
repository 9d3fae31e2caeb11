package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

func TestParseRecord(t *testing.T) {
	r := ParseRecord("NodeName=n1 Arch=x86_64 NodeAddr=127.0.1.1 OS=Linux 6.1 #1 SMP State=IDLE+DRAIN Reason=ask NodeAddr=evil why\n")
	for name, want := range map[string]string{
		"NodeName": "n1", "NodeAddr": "127.0.1.1", "OS": "Linux", "State": "IDLE+DRAIN", "Reason": "ask", "Nothing": "",
	} {
		if r[name] != want {
			t.Errorf("%s: got %q, want %q", name, r[name], want)
		}
	}
	if len(r) != 6 {
		t.Errorf("%d fields: %v", len(r), r)
	}
}

// fakeScontrol puts a script in the place of scontrol.
func fakeScontrol(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestNodeAddress(t *testing.T) {
	fakeScontrol(t, `
[ "$*" = "--oneliner show node n1" ] && { echo "NodeName=n1 NodeAddr=10.0.0.7 State=IDLE"; exit; }
[ $4 = n2 ] && { echo "NodeName=n2 State=IDLE"; exit; }
echo "Node $4 not found" >&2; exit 1
`)
	if got, err := NodeAddress(t.Context(), "n1"); err != nil || got != "10.0.0.7" {
		t.Errorf("n1: got %q, %v", got, err)
	}
	for node, want := range map[string]string{"n2": "names no NodeAddr", "n3": "Node n3 not found"} {
		if _, err := NodeAddress(t.Context(), node); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", node, err, want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add("NodeName=n1 NodeAddr=127.0.1.1 Reason=a b=c =d =")
	fuzztest.Run(f, []string{"NodeName", "NodeAddr", "=", " ", "n1", "a", "b", "\n", "127.0.0.1"}, func(t *testing.T, line string) {
		for name, value := range ParseRecord(line) {
			if name == "" || strings.ContainsAny(name, "= \n\t") || !strings.Contains(line, name+"="+value) {
				t.Fatalf("field %q=%q of %q", name, value, line)
			}
		}
	})
}
