package benchlog

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

const one = "Benchmarking with concurrency 4 ... 32 prompts\nMedian TTFT (ms):  1.5\nBenchmark with concurrency 4 done\n"

// However the text arrives, whatever ends its lines and whichever colours it has, the figures are the same.
func TestLineEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r", "\r\n"}).Draw(t, "end")
		noise := rapid.StringMatching(`[ -~]{0,40}`).Draw(t, "noise")
		padding := strings.Repeat("Benchmarking:  50%|#####     | 64/128 [00:31<00:31,  2.05it/s]\r", rapid.IntRange(0, 10_000).Draw(t, "padding"))
		colour := rapid.SampledFrom([]string{"", "\x1b[0m", "\x1b[1;32m", "\x1b(B\x1b[m"}).Draw(t, "colour")
		text := padding + strings.ReplaceAll(one, "\n", colour+end+colour) + noise + end
		want, err := Read(strings.NewReader(one))
		must.Do(t, err)
		if strings.Contains(noise, "equests:") || strings.Contains(noise, "Benchmark") {
			t.Skip()
		}
		got, err := Read(iotest.HalfReader(strings.NewReader(text)))
		if diff := cmp.Diff(want.Levels, got.Levels, cmpopts.IgnoreUnexported(Level{}), cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

func TestPlain(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "a": "a", "\x1b[1;32ma\x1b[0mb\x1b[?25h": "ab", "a\x1b(B\x1b[m\x0fb": "ab", "\x1b": "\x1b", "\x1b[": "\x1b[", "\x1b[1": "\x1b[1", "\x1b(": "\x1b(",
		"\x1b[1{a": "\x1b[1{a", "a\x1bb": "a\x1bb", "\x1b[[31m": "\x1b[[31m", "\x1b\x1b[31mé": "\x1bé",
	} {
		if got := Plain([]byte(line)); string(got) != want {
			t.Errorf("%q is %q, wanted %q", line, got, want)
		}
	}
}

// Half a line is no line: a figure is never cut short.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", longest-len("Median TTFT (ms): 14")-1) + " Median TTFT (ms): 144.30\n"
	text := strings.Replace(one, "Benchmark with", long+"Benchmark with", 1)
	got, err := Read(strings.NewReader(text))
	if err != nil || len(got.Levels) != 1 || got.Levels[0].Metrics["SERVER_MEDIAN_TTFT"] != 1.5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhole(t *testing.T) {
	for text, whole := range map[string]bool{
		one: true, strings.TrimSpace(one): true, one[:len(one)-3]: false, "": true, "x": false,
		strings.TrimSuffix(one, " done\n"): false,
	} {
		if got, err := Read(strings.NewReader(text)); err != nil || got.Whole != whole {
			t.Errorf("%q: whole is %v, %v", text, got.Whole, err)
		}
	}
}

func TestReadError(t *testing.T) {
	if _, err := Read(iotest.ErrReader(io.ErrUnexpectedEOF)); err == nil {
		t.Error("an error of the reader was lost")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(one))
	f.Add([]byte("0: Benchmarking with concurrency 16 ... 128 prompts\r\n0: Median TTFT (ms): 144.30\n"))
	f.Add([]byte("Benchmarking with concurrency prompts\nBenchmarking with concurrency  prompts"))
	f.Add([]byte(" (ms):1\nTotal requests:\nBenchmark with concurrency done"))
	fuzztest.Run(f, []string{"Benchmarking with concurrency ", " ... ", "128", " prompts\n", "Median TTFT (ms): ", "Median E2EL (ms): ", "Benchmark with concurrency ", " done\n", "16", "4", "1.5", "\n", "\r", "Failed requests: ", "Total requests: ", "Total generated tokens: ", "0: ", "====", "Benchmarking with concurrency 16 ... 128 prompts\n", "Benchmark with concurrency 16 done\n"}, func(t *testing.T, text []byte) {
		log, err := Read(bytes.NewReader(text))
		must.Do(t, err)
		for _, l := range log.Levels {
			for name, x := range l.Metrics {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%s is %v", name, x)
				}
			}
		}
		// A level reads as it was written.
		random := fuzztest.Random(text)
		concurrency, prompts, ms := 1+random.IntN(4096), 1+random.IntN(1e5), float64(random.IntN(1e6))/100
		level := fmt.Sprintf("Benchmarking with concurrency %d ... %d prompts\nMedian TTFT (ms):  %.2f\nBenchmark with concurrency %d done\n", concurrency, prompts, ms, concurrency)
		got, err := Read(strings.NewReader(level))
		if err != nil || len(got.Levels) != 1 || got.Levels[0].Concurrency != concurrency || got.Levels[0].Prompts != prompts || !got.Levels[0].Complete || got.Levels[0].Metrics["SERVER_MEDIAN_TTFT"] != ms {
			t.Fatalf("%s: %+v, %v", level, got, err)
		}
	})
}

// BenchmarkRead reads 64 MiB of the usual mix of lines.
func BenchmarkRead(b *testing.B) {
	level := strings.Replace(one, "Median", strings.Repeat("0: [01/14/2026-02:11:40] [TRT-LLM] [I] iter = 4711, num_scheduled_requests: 16, states = {}\n", 2000)+"Median", 1)
	text := []byte(strings.Repeat(level, (64<<20)/len(level)))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

// Counts that are no numbers are not passed over without a word.
func TestUnreadableCounts(t *testing.T) {
	head, end := "Benchmarking with concurrency 4 ... 32 prompts\n", "Benchmark with concurrency 4 done\n"
	bad := "Failed requests:                 99999999999999999999\n0: Successful requests: -1\nTotal requests: 3x\nTotal generated tokens: 1e999\n"
	log, err := Read(strings.NewReader(head + bad + end))
	must.Do(t, err)
	want := []string{
		`line 2: Failed requests: wanted a whole number, got "99999999999999999999"`, `line 3: Successful requests: wanted a whole number, got "-1"`,
		`line 4: Total requests: wanted a whole number, got "3x"`, `line 5: Total generated tokens: wanted a whole number, got "1e999"`,
	}
	if diff := cmp.Diff(want, log.Unread); diff != "" || log.MoreUnread != 0 {
		t.Errorf("(-want +got), %d more\n%s", log.MoreUnread, diff)
	}
	if log, err = Read(strings.NewReader(head + strings.Repeat(bad, 1000) + end)); err != nil || len(log.Unread) != 10 || log.MoreUnread != 3990 {
		t.Errorf("%d, and %d more, %v", len(log.Unread), log.MoreUnread, err)
	}
	if log, err = Read(strings.NewReader(head + one + end)); err != nil || log.Unread != nil {
		t.Errorf("%v, %v", log.Unread, err)
	}
}

// Of two lines that have run into each other the second figure is read.
func TestJoinedLines(t *testing.T) {
	text := "Benchmarking with concurrency 4 ... 32 prompts\n0: Mean E2EL (ms): 7900.00   0: Median E2EL (ms): 7850.20\n" +
		"Benchmark with concurrency 4 done\n"
	log, err := Read(strings.NewReader(text))
	if err != nil || len(log.Levels) != 1 || log.Levels[0].Metrics[Name("Median", "E2EL")] != 7850.2 {
		t.Errorf("%+v, %v", log, err)
	}
}

// What a warm-up's result says of requests within a level does not stand for what is measured. Failures that are summed up
// before a result belong to it.
func TestCountsOfAWarmup(t *testing.T) {
	const block = "============ Serving Benchmark Result ============\n"
	const warmup = block + "Total requests: 9\nSuccessful requests: 7\nFailed requests: 2\n"
	for text, want := range map[string][3]float64{
		warmup + block + "Successful requests: 4\n":                                                          {-1, 4, -1},
		"Total failed requests: 5\n" + block + "Successful requests: 27\n":                                   {-1, 27, 5},
		"Total failed requests: 5\n" + block + "Successful requests: 27\nFailed requests: 0\n":               {-1, 27, 5},
		warmup + "Total failed requests: 5\n" + block + "Successful requests: 27\n":                          {-1, 27, 5},
		"Total failed requests: 5\n" + warmup + "Total failed requests: 0\n" + block + "Total requests: 4\n": {4, -1, 0},
	} {
		log, err := Read(strings.NewReader("Benchmarking with concurrency 4 ... 32 prompts\n" + text + "Benchmark with concurrency 4 done\n"))
		if err != nil || len(log.Levels) != 1 {
			t.Fatalf("%+v, %v", log, err)
		}
		if l := log.Levels[0]; [3]float64{Or(l.Requests, -1), Or(l.Completed, -1), Or(l.Failed, -1)} != want {
			t.Errorf("%q: total %g, successful %g, failed %g; want %g", text, l.Requests, l.Completed, l.Failed, want)
		}
	}
}

// A log is not whole where its last line has no end, however long that is.
func TestEndWithinALongLine(t *testing.T) {
	for _, size := range []int{longest - 1, longest, longest + 1, 2 * longest} {
		log, err := Read(strings.NewReader("a line\n" + strings.Repeat("x", size)))
		if err != nil || log.Whole || log.LastLine == "" {
			t.Errorf("%d bytes: whole is %v, last line %.10q, %v", size, log.Whole, log.LastLine, err)
		}
	}
	if log, err := Read(strings.NewReader(strings.Repeat("x", 2*longest) + "\n")); err != nil || !log.Whole {
		t.Errorf("whole is %v, %v", log.Whole, err)
	}
}

// Figures that the record of figures could not hold are not read.
func TestLargeFigures(t *testing.T) {
	log, err := Read(strings.NewReader("Benchmarking with concurrency 4 ... 32 prompts\nMedian TTFT (ms): 1e300\nMedian E2EL (ms): 1e305\nBenchmark with concurrency 4 done\n"))
	if err != nil || len(log.Levels) != 1 || len(log.Levels[0].Metrics) != 1 || len(log.Unread) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
}
