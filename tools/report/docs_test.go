package report

import (
	"io"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/must"
	"perigee/internal/serving/runs/runstest"
)

// Every command in docs/report.md and in the help runs.
func TestExamplesRun(t *testing.T) {
	docs := must.Read(t, "../../docs/report.md")
	lines := strings.Split(string(docs)+"\n"+Cmd{}.Help(), "\n")
	t.Chdir(t.TempDir())
	for _, name := range []string{"result.json.zst", "before.json.zst", "after.json.zst", "r1.json.zst", "r2.json.zst", "r3.json.zst"} {
		must.Do(t, smallDocument().Write(name))
	}
	runstest.VLLM(t, "benchmarks/tp4/c8.json", 8, 10)
	ran := 0
	for _, line := range lines {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		line, _, _ = strings.Cut(line, " |")
		line, _, _ = strings.Cut(line, " >")
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "perigee" || words[1] != "report" {
			continue
		}
		var c Cmd
		k, err := cli.Parser(&c)
		must.Do(t, err)
		if _, err := k.Parse(strings.Split(strings.ReplaceAll(strings.Join(words[2:], " "), "'", ""), " ")); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := c.Run(cli.Streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		ran++
	}
	if ran < 8 {
		t.Errorf("only %d examples found", ran)
	}
}
