package judge

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// Thresholds that TensorRT-LLM's own test computes.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		name                string
		expected, threshold float64
	}{
		{"gsm8k", 0.9454, 91.3375}, {"gsm8k", 94.54, 91.3375}, {"gpqa_diamond", 0.65, 56.7343}, {"mmlu", 87.5, 85.6827},
		{"humaneval", 75, 70.2070}, {"aime25", 80, 58.7650}, {"slimpajama-6b", 5.0, 6.5893},
	} {
		j := Reference{Name: c.name, Expected: c.expected, Test: defaultTest(c.name)}.Judge(0)
		if math.Abs(j.Threshold-c.threshold) > 5e-5 {
			t.Errorf("%s %g: threshold %.4f, want %.4f", c.name, c.expected, j.Threshold, c.threshold)
		}
	}
	if j := (Reference{Expected: .9454, Test: defaultTest("gsm8k")}).Judge(.9454); math.Abs(j.Theta-4.8411) > 5e-5 || !j.Passed {
		t.Errorf("%+v", j)
	}
	// A deviation of at most 1 leaves both as fractions: 0.9 does not pass for 1.0.
	if j := (Reference{Expected: 1, Test: defaultTest("passkey_retrieval_64k")}).Judge(.9); j.Passed || j.Threshold != 1 {
		t.Errorf("%+v", j)
	}
	if j := (Reference{Expected: 5, Test: defaultTest("slimpajama-6b")}).Judge(6.6); j.Passed {
		t.Errorf("lower is better: %+v", j)
	}
}

// The groups stand in lm_eval's second table again: that is no second run. A second evaluation is.
func TestGroups(t *testing.T) {
	log := `|Tasks |Version|Filter|n-shot|Metric|   |Value |   |Stderr|
|------|------:|------|-----:|------|---|-----:|---|-----:|
|gsm8k |      3|none  |     5|acc   |↑  |0.9500|±  |0.0060|
|mmlu  |      2|none  |      |acc   |↑  |0.8700|±  |0.0038|
| - sub|      2|none  |      |acc   |↑  |0.8500|±  |0.0066|

|Groups|Version|Filter|n-shot|Metric|   |Value |   |Stderr|
|------|------:|------|-----:|------|---|-----:|---|-----:|
|mmlu  |      2|none  |      |acc   |↑  |0.8700|±  |0.0038|
| - sub|      2|none  |      |acc   |↑  |0.8500|±  |0.0066|
`
	for runs := 1; runs <= 3; runs++ {
		scores, err := read(strings.Repeat(log, runs))
		if err != nil || len(scores) != 3*runs || scores[len(scores)-1].Run != runs {
			t.Errorf("%d runs: %+v, %v", runs, scores, err)
		}
	}
	_, groups, _ := strings.Cut(log, "\n\n")
	if scores, _ := read(groups + groups); len(scores) != 4 || scores[3].Run != 2 {
		t.Errorf("two tables of groups alone: %+v", scores)
	}
}

func TestTables(t *testing.T) {
	log := `| Tasks |Version|Filter|n-shot| Metric |   |Value |   |Stderr|
|-------|------:|------|-----:|--------|---|-----:|---|-----:|
|mmlu   |      2|none  |      |acc     |↑  |0.8712|±  |0.0027|
| - stem|      2|none  |      |acc     |↑  |0.8001|±  |   N/A|

|aime25|1|strict-match|0|exact_match|↑|nan|±|0|
`
	scores, err := read(log)
	if err != nil || len(scores) != 3 || scores[2].Text != "nan" {
		t.Fatalf("%+v, %v", scores, err)
	}
	if s := scores[0]; s.Task != "mmlu" || s.Filter != "none" || s.Value != .8712 || *s.StdErr != .0027 {
		t.Errorf("%+v", s)
	}
	if s := scores[1]; s.Task != "stem" || s.StdErr != nil || s.Run != 1 {
		t.Errorf("%+v", s)
	}
	reasons, judged := judgeAll(scores, []Reference{{Name: "mmlu", Filter: "none", Expected: 87.5, Test: defaultTest("mmlu")}, {Name: "gsm8k", Filter: "strict-match", Test: defaultTest("gsm8k")}})
	if len(reasons) != 1 || !strings.Contains(reasons[0], "no result of gsm8k with the filter strict-match") || !judged[0].Passed {
		t.Errorf("%q, %+v", reasons, judged[0].Judgement)
	}
	if r, _ := judgeAll(nil, []Reference{{Name: "mmlu"}}); len(r) != 1 {
		t.Errorf("no table: %q", r)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("0: |gsm8k|      3|flexible-extract|     5|exact_match|u  |0.9454|p  |0.0063|\n")
	f.Add("|Tasks|Value|Metric|Filter|\n|||||\n")
	f.Add("|Tasks|Filter|Metric|Value|x|Tasks|\n|gsm8k|f|m|1|x|\n|Groups|Filter|Metric|Value|x|Groups|\n|gsm8k|f|m|2|x|\n") // a row without the last column
	fuzztest.Run(f, []string{"|", "gsm8k", "mmlu", "flexible-extract", "exact_match", "0.9454", "5", "1", "u", "\n", "Tasks", "Filter", "Metric", "Value", "Stderr", "- ", "0: ", "|gsm8k|3|flexible-extract|5|exact_match|u|0.9|p|0.0063|\n"}, func(t *testing.T, log string) {
		scores, err := read(log)
		must.Do(t, err)
		for _, s := range scores {
			if s.Run < 1 || s.Task == "" || math.IsNaN(s.Value) {
				t.Fatalf("%+v", s)
			}
		}
		// A row reads as it was written.
		random := fuzztest.Random([]byte(log))
		value, stderr := float64(random.IntN(10000))/10000, float64(random.IntN(10000))/10000
		row := fmt.Sprintf("\n| Tasks |Version|Filter|n-shot|Metric|   |Value|   |Stderr|\n|task%d|3|none|5|acc|u|%.4f|p|%.4f|\n", random.IntN(9), value, stderr)
		with, err := read(row)
		if err != nil || len(with) != 1 || with[0].Value != value || with[0].StdErr == nil || *with[0].StdErr != stderr || with[0].Filter != "none" || with[0].Metric != "acc" {
			t.Fatalf("%s: %+v, %v", row, with, err)
		}
	})
}

// A metric without a number is one that was not reached, in whatever run, and other tables are none of lm_eval's.
func TestValuesThatAreNoNumbers(t *testing.T) {
	table := func(metric, value string) string {
		return "|Tasks|Version|Filter|n-shot|Metric|   |Value|   |Stderr|\n|-----|------:|------|-----:|------|---|----:|---|-----:|\n" +
			"|gsm8k|      3|strict|     5|" + metric + "|↑  |" + value + "|±  |0.0060|\n"
	}
	reference := []Reference{{Name: "gsm8k", Filter: "strict", Expected: 0.95, Test: defaultTest("gsm8k")}}
	good := table("exact_match", "0.9500")
	for text, want := range map[string]string{
		good:                                              "",
		good + good:                                       "",
		good + table("exact_match", "nan"):                `accuracy: run 2 of gsm8k: wanted a number for exact_match, got "nan"`,
		good + table("exact_match", "N/A"):                `accuracy: run 2 of gsm8k: wanted a number for exact_match, got "N/A"`,
		good + table("exact_match", "1e301"):              `accuracy: run 2 of gsm8k: wanted a number for exact_match, got "1e301"`,
		table("exact_match", "-inf") + good:               `accuracy: run 1 of gsm8k: wanted a number for exact_match, got "-inf"`,
		table("f1", "0.95") + table("exact_match", "inf"): `accuracy: run 1 of gsm8k: wanted a number for exact_match, got "inf"`,
		good + strings.Repeat("| 0 | H100 | On | 5 | N | | Default | | none |\n", 3): "",
	} {
		scores, err := read(text)
		must.Do(t, err)
		reasons, _ := judgeAll(scores, reference)
		if got := strings.Join(reasons, "; "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// Runs may come one after the other, or those of each task.
func TestOrderOfRuns(t *testing.T) {
	table := func(task, value string) string {
		return "|Tasks|Version|Filter|n-shot|Metric|   |Value|   |Stderr|\n|-----|------:|------|-----:|------|---|----:|---|-----:|\n" +
			"|" + task + "|      3|none|     5|acc|↑  |" + value + "|±  |0.0060|\n"
	}
	references := []Reference{{Name: "gsm8k", Filter: "none", Expected: 0.95, Test: defaultTest("gsm8k")}, {Name: "mmlu", Filter: "none", Expected: 0.8, Test: defaultTest("mmlu")}}
	g, m, low := table("gsm8k", "0.95"), table("mmlu", "0.8"), table("mmlu", "0.1")
	for text, want := range map[string]string{
		g + m: "", g + m + g + m: "", g + g + m + m: "", m + g + g + m: "",
		g + m + g:       "accuracy: run 2 has no result of mmlu with the filter none",
		g + g + m + low: "accuracy: run 2 of mmlu reached 10.0000, below the threshold 77.0858 (reference 80.0000)",
	} {
		scores, err := read(text)
		must.Do(t, err)
		reasons, _ := judgeAll(scores, references)
		got := strings.Join(reasons, "; ")
		if cut, _, _ := strings.Cut(want, " threshold"); !strings.HasPrefix(got, cut) || want == "" && got != "" {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// A group repeats the row of its name where it has the same value; another value is another run's.
func TestGroupsThatDiffer(t *testing.T) {
	const tasks = "|Tasks|Filter|Metric|Value|x|\n|gsm8k|f|m|0.9|x|\n"
	for groups, want := range map[string]int{"|gsm8k|f|m|0.9|x|\n": 1, "|gsm8k|f|m|0.3|x|\n": 2, "|gsm8k|f|m|nan|x|\n": 2} {
		if scores, err := read(tasks + "|Groups|Filter|Metric|Value|x|Groups|\n" + groups); err != nil || len(scores) != want {
			t.Errorf("%s: %+v, %v", groups, scores, err)
		}
	}
}

// Each log has its own header, colours and groups; runs are counted over all.
func TestSeveralLogs(t *testing.T) {
	const header, groups = "|Tasks|Version|Filter|n-shot|Metric||Value|\n", "|Groups|Version|Filter|n-shot|Metric||Value|\n"
	row := func(value string) string { return "|a|3|f|5|m|↑|" + value + "|±|0.006|\n" }
	var logs tables
	for _, log := range []string{header + row("0.5") + groups + row("0.5"), "\x1b[32m" + strings.TrimSpace(row("0.25")) + "\x1b(B\x1b[m\n", groups + row("0.125")} {
		if _, err := logs.read(strings.NewReader(log)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, s := range logs.inOrder() {
		got = append(got, fmt.Sprint(s.Run, s.Value))
	}
	if want := "1 0.5, 2 0.25, 3 0.125"; strings.Join(got, ", ") != want {
		t.Errorf("%q, wanted %s", got, want)
	}
}

// judgeAll judges scores by references, and returns what is wrong, and the scores.
func judgeAll(scores []Score, references []Reference) (reasons []string, judged []Score) {
	j := judge{v: &Verdict{}, e: &Evidence{Scores: scores}, want: Expect{References: references}}
	j.accuracy()
	return j.v.Reasons, j.v.Accuracy
}

func read(log string) ([]Score, error) {
	var t tables
	_, err := t.read(strings.NewReader(log))
	return t.inOrder(), err
}
