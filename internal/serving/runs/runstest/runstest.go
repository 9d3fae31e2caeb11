// Package runstest writes files of clients of serving benchmarks for tests.
package runstest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// VLLM writes what vllm bench serve saves of a level: requests of 1000 and 100 tokens, by a closed loop. tpot is in ms.
func VLLM(t testing.TB, path string, concurrency int, tpot float64) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	n := 10 * concurrency
	ttft := 50 + float64(concurrency)
	e2el := ttft + 99*tpot
	duration := float64(n) / float64(concurrency) * e2el / 1000
	latency := func(name string, ms float64) string {
		return fmt.Sprintf(`"mean_%[1]s_ms": %[2]v, "median_%[1]s_ms": %[2]v, "std_%[1]s_ms": 0, "p99_%[1]s_ms": %[2]v`, name, ms)
	}
	text := fmt.Sprintf(`{"date": "20260101-000000", "backend": "vllm", "model_id": "m", "num_prompts": %d, "request_rate": "inf", "burstiness": 1.0,
"max_concurrency": %d, "duration": %v, "completed": %d, "failed": 0, "total_input_tokens": %d, "total_output_tokens": %d,
"request_throughput": %v, "output_throughput": %v, "total_token_throughput": %v, %s, %s, %s, %s}`, n, concurrency, duration, n, 1000*n, 100*n,
		float64(n)/duration, float64(100*n)/duration, float64(1100*n)/duration, latency("ttft", ttft), latency("tpot", tpot),
		latency("itl", tpot), latency("e2el", e2el))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
