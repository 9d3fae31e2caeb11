package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// many writes n reports of about 150 lines, like those of a real sweep.
func many(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	text := report(b)
	for i := range n {
		run := filepath.Join(dir, fmt.Sprintf("sweep%d", i%3), fmt.Sprintf("run%d", i/10))
		must.Do(b, os.MkdirAll(run, 0o755))
		doc := strings.NewReplacer("max_concurrency: 8", fmt.Sprint("max_concurrency: ", 1<<(i%10)), "720.0", fmt.Sprint(100+i), "tp: 4", fmt.Sprint("tp: ", 1<<(i%4))).Replace(text)
		must.Do(b, os.WriteFile(filepath.Join(run, fmt.Sprintf("benchmark_report,_%d.yaml", i)), []byte(doc), 0o644))
	}
	return dir
}

// BenchmarkFiles5000 imports 5,000 reports. Target: below 2 s on two cores.
func BenchmarkFiles5000(b *testing.B) {
	dir := many(b, 5000)
	b.ReportAllocs()
	for b.Loop() {
		in, err := Load([]string{dir}, DefaultLoadOptions())
		if err != nil || len(in.Runs) != 5000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkReport(b *testing.B) {
	text := []byte(report(b))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadReport("r.yaml", text); err != nil {
			b.Fatal(err)
		}
	}
}
