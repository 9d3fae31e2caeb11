package sweep

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sweep runs `perigee sweep ARGS` as main would.
func sweep(t testing.TB, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var c Cmd
	var out, errs bytes.Buffer
	k, err := cli.Parser(&c, kong.Writers(&out, &errs), kong.Exit(func(int) {}), kong.Bind(cli.Streams{Out: &out, Err: &errs}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := k.Parse(cli.JoinSort(args))
	if err == nil {
		err = ctx.Run()
	}
	return out.String(), errs.String(), err
}

// mustSweep is sweep that goes well.
func mustSweep(t testing.TB, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := sweep(t, args...)
	if err != nil {
		t.Fatalf("sweep %q: %v\n%s", args, err, stderr)
	}
	return stdout, stderr
}

// here is the folder of the tests' data, whose path the output must not hold.
func here(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"table.txt":       {"table", "--allow-implausible", "testdata/sweepA"},
		"table.csv":       {"table", "--allow-implausible", "testdata/sweepA", "--format", "csv"},
		"scenario.txt":    {"table", "--allow-implausible", "testdata/sweepA", "testdata/v02", "--scenario", "2"},
		"joined.txt":      {"table", "--allow-implausible", "testdata/sweepA", "testdata/bad", "--scenario", "0", "--no-seg-by-dir", "--columns", "Run,Concurrency,Thpt_per_GPU"},
		"v02.csv":         {"table", "testdata/v02", "--format", "csv"},
		"scenarios.txt":   {"scenarios", "testdata"},
		"scenarios.json":  {"scenarios", "testdata", "--format", "json", "--min-runs", "2"},
		"best.txt":        {"table", "--allow-implausible", "testdata/sweepA", "--where", "Concurrency>=32", "--sort", "-Thpt_per_GPU,TP", "--columns", "Name,Concurrency,Thpt_per_GPU,P90_TTFT_ms", "--head", "4"},
		"columns.txt":     {"columns"},
		"bad.stderr":      {"table", "--allow-implausible", "testdata/bad"},
		"percentiles.csv": {"table", "testdata/v02", "testdata/sweepA", "--columns", "all", "--format", "csv"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr := mustSweep(t, args...)
			got := stdout
			if strings.HasSuffix(name, ".stderr") {
				got = stderr
			}
			got = strings.ReplaceAll(got, here(t), "/data")
			if strings.HasPrefix(got, "# perigee") {
				_, rest, _ := strings.Cut(got, ": ")
				got = "# perigee VERSION: " + rest
			}
			file := filepath.Join("testdata", "golden", name)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The figures of the table follow from those in the reports: worked out here
// once more, from nothing but the table's other columns and the spec of the name.
func TestFiguresAddUp(t *testing.T) {
	stdout, _ := mustSweep(t, "table", "testdata/sweepA", "testdata/v02", "--columns", "all", "--format", "csv")
	records, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || len(records) != 17 {
		t.Fatal(err, len(records))
	}
	for _, record := range records[1:] {
		cell := map[string]string{}
		for i, name := range records[0] {
			cell[name] = record[i]
		}
		number := func(name string) float64 {
			x, err := strconv.ParseFloat(cell[name], 64)
			if err != nil {
				return 0
			}
			return x
		}
		gpus := number("TP")*number("DP")*number("PP")*number("Replicas") + number("P_TP")*number("P_DP")*number("P_PP")*number("P_Replicas") +
			number("D_TP")*number("D_DP")*number("D_PP")*number("D_Replicas")
		if number("Num_GPUs") != gpus {
			t.Errorf("%s: %v GPUs, want %v", cell["Name"], number("Num_GPUs"), gpus)
		}
		if got, want := number("Thpt_per_GPU"), number("Output_Token_Throughput")/gpus; got != want {
			t.Errorf("%s: %v tok/s/GPU, want %v", cell["Name"], got, want)
		}
		if c := number("Concurrency"); c > 0 && c < 1e6 && number("Thpt_per_User") != number("Output_Token_Throughput")/c {
			t.Errorf("%s: %v tok/s/user at %v", cell["Name"], number("Thpt_per_User"), c)
		}
		if tpot := number("Mean_TPOT_ms"); tpot > 0 && number("Thpt_per_User_TPOT") != 1000/tpot {
			t.Errorf("%s: %v tok/s/user at a TPOT of %v", cell["Name"], number("Thpt_per_User_TPOT"), tpot)
		}
	}
}

func TestJSONHoldsWhatCSVHolds(t *testing.T) {
	text, _ := mustSweep(t, "table", "testdata/sweepA", "--format", "json", "--allow-implausible")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 13 || len(rows[0]) != 37 {
		t.Fatalf("%d rows of %d columns", len(rows), len(rows[0]))
	}
	first := rows[0]
	for name, want := range map[string]any{"Name": "1P TP2, 3D TP2", "Num_GPUs": 8.0, "Is_PD": true, "TP": nil, "Thpt_per_User": 68.75, "Directory": filepath.Join(here(t), "sweepA")} {
		if first[name] != want {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(t.TempDir(), "benchmark_report.yaml")
	if err := os.WriteFile(broken, []byte("version: '7'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		kind fault.Kind
		args []string
	}{
		{"no benchmark reports in " + dir, fault.Input, []string{"table", dir}},
		{"nowhere: there is no such file or folder", fault.Input, []string{"table", "nowhere"}},
		{`--where: condition "X>1", character 1: there is no column "X"`, fault.Usage, []string{"table", "testdata/sweepA", "--where", "X>1"}},
		{`--sort: there is no column "Name2"; did you mean "Name"?`, fault.Usage, []string{"table", "testdata/sweepA", "--sort", "-Name2"}},
		{`--columns: there is no column ""`, fault.Usage, []string{"table", "testdata/sweepA", "--columns", "Name,"}},
		{"--columns: name is there twice", fault.Usage, []string{"table", "testdata/sweepA", "--columns", "Name,name"}},
		{"--round-isl: wanted a number above 0, got 0", fault.Usage, []string{"table", "testdata/sweepA", "--round-isl", "0"}},
		{"--index: wanted an index from 0 to 0, got 7", fault.Usage, []string{"table", "testdata/sweepA", "--scenario", "7"}},
		{"there are 3 scenarios; --index must say which", fault.Usage, []string{"plot", "testdata/v02", "testdata/sweepA", "-o", "x.png"}},
		{"--output: wanted a name that ends in .png or .svg, got x.jpg", fault.Usage, []string{"plot", "testdata/sweepA", "-o", "x.jpg"}},
		{"--x: the column Model holds text, and a number is needed", fault.Usage, []string{"plot", "testdata/sweepA", "-o", "x.png", "--x", "Model"}},
		{`SLO "TTFM<5", character 1: there is no column "TTFM"`, fault.Usage, []string{"plot", "testdata/sweepA", "-o", "x.png", "--slo", "TTFM<5"}},
		{`--size: wanted a size such as 1200x800, got "big"`, fault.Usage, []string{"plot", "testdata/sweepA", "-o", "x.png", "--size", "big"}},
		{"--size: wanted 300 to 8000 pixels each way, got 1200x80000", fault.Usage, []string{"plot", "testdata/sweepA", "-o", "x.png", "--size", "1200x80000"}},
		{"nothing to draw: of 13 runs, none that is asked for has both Thpt_per_User and Thpt_per_GPU", fault.Input, []string{"plot", "testdata/sweepA", "-o", "x.png", "--no-show-pd", "--no-show-sa"}},
		{"nothing could be read in " + broken, fault.Input, []string{"plot", broken, "-o", "x.png"}},
		{"nothing could be read in " + broken, fault.Input, []string{"report", broken, "-o", "x.html", "--scenario", "1"}},
		{"11 files skipped (--strict)", fault.Input, []string{"table", "testdata/bad", "--strict"}},
		{"11 files skipped (--strict)", fault.Input, []string{"scenarios", "testdata/bad", "--strict"}},
	} {
		_, _, err := sweep(t, c.args...)
		if err == nil || err.Error() != c.want || fault.KindOf(err) != c.kind {
			t.Errorf("%q:\n got %v (%v)\nwant %s", c.args, err, fault.KindOf(err), c.want)
		}
	}
	if _, err := os.Stat("x.png"); !errors.Is(err, os.ErrNotExist) {
		t.Error("a picture was written all the same")
	}
}

// A folder that holds only links says so; a link that is named is followed.
func TestOnlyLinks(t *testing.T) {
	real, err := filepath.Abs("testdata/sweepA")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "one")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	_, _, err = sweep(t, "scenarios", dir)
	if want := "no benchmark reports in " + dir + ": " + link + " is a link"; fault.KindOf(err) != fault.Input || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v, wanted %s", err, want)
	}
	named, _ := mustSweep(t, "scenarios", link)
	if want, _ := mustSweep(t, "scenarios", real); named != want {
		t.Errorf("%s\nwanted %s", named, want)
	}
}

// Scenarios keep their indices whatever --where leaves of them.
// No output is written over what it was made from.
func TestOutputIsNoInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "benchmark_report_x.yaml")
	report, err := os.ReadFile("testdata/sweepA/pd_1P_TP2_3D_TP2/benchmark_report,_c32.yaml")
	if err == nil {
		err = os.WriteFile(file, report, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "x.svg")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	var s cli.Streams
	s.Out, s.Err = io.Discard, io.Discard
	in := Input{Dirs: []string{dir}, RoundISL: 10, RoundOSL: 1}
	for name, run := range map[string]func() error{
		"report": func() error {
			return (&ReportCmd{Input: in, Output: file, Format: "page", X: "Thpt_per_User", Y: "Thpt_per_GPU"}).Run(s)
		},
		"plot": func() error { return (&PlotCmd{Input: in, Output: link, X: "Thpt_per_User", Y: "Thpt_per_GPU"}).Run(s) },
	} {
		if err := run(); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
		if text, _ := os.ReadFile(file); !bytes.Equal(text, report) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestWhereKeepsIndices(t *testing.T) {
	stdout, _ := mustSweep(t, "scenarios", "testdata/sweepA", "testdata/v02", "--where", "Schema == '0.2'", "--format", "csv")
	want := "Index,Model,GPU,ISL,OSL,Runs,Configurations\n0,Qwen/Qwen3-0.6B,NVIDIA-H100-80GB-HBM3,2260,998,1,1\n1,Qwen/Qwen3-32B,NVIDIA-H200,2000,250,1,1\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPictures(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, said string
		flags      []string
	}{
		{"a.png", "13 runs of 4 configurations, 4 on the Pareto front", nil},
		{"b.svg", "6 runs of 2 configurations, 4 on the Pareto front", []string{"--no-show-sa"}},
		{"c.svg", "7 runs of 2 configurations, 4 on the Pareto front", []string{"--no-show-pd"}},
		{"d.png", "13 runs of 4 configurations, 9 within the SLOs, 3 on the Pareto front", []string{"--slo", "P90_TTFT_ms<=500", "--slo", "Concurrency>=1", "--log-x", "--log-y"}},
		{"e.svg", "13 runs of 4 configurations; written", []string{"--x", "Concurrency", "--y", "P99_TTFT_ms", "--label", "Name"}},
		{"f.svg", "3 runs of 1 configuration, 3 on the Pareto front", []string{"--where", "Name == '4R TP2'", "--label", "none", "--size", "400x300"}},
	} {
		file := filepath.Join(dir, c.name)
		stdout, _ := mustSweep(t, append([]string{"plot", "testdata/sweepA", "-o", file, "--allow-implausible"}, c.flags...)...)
		if !strings.Contains(stdout, c.said) {
			t.Errorf("%s: %q does not say %q", c.name, stdout, c.said)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(c.name, ".png") {
			if img, err := png.Decode(bytes.NewReader(text)); err != nil || img.Bounds().Dx() != 2400 || img.Bounds().Dy() != 1600 {
				t.Errorf("%s: %v, %v", c.name, err, img.Bounds())
			}
			continue
		}
		words := svgWords(t, text)
		for _, w := range map[string][]string{"b.svg": {"1P TP2, 3D TP2", "Tok/s/User", "Tok/s/GPU", "Pareto front", "meta-llama/Llama-3.1-70B-Instruct"}, "c.svg": {"2R TP4", "128"}, "e.svg": {"P99 TTFT (ms)"}}[c.name] {
			if !strings.Contains(words, w) {
				t.Errorf("%s does not show %q", c.name, w)
			}
		}
		if c.name == "b.svg" && strings.Contains(words, "2R TP4") || c.name == "c.svg" && strings.Contains(words, "1D TP4") || c.name == "f.svg" && strings.Contains(words, "128") {
			t.Errorf("%s shows what was switched off", c.name)
		}
	}
}

// svgWords is the text that an SVG shows; it must be well-formed.
func svgWords(t *testing.T, svg []byte) string {
	t.Helper()
	var words strings.Builder
	d := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return words.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			inText = x.Name.Local == "text"
		case xml.CharData:
			if inText {
				words.WriteString(string(x) + "\n")
			}
		case xml.EndElement:
			inText = false
		}
	}
}
