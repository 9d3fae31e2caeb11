package report

import "testing"

// Names say by whole words which values are good.
func TestDirections(t *testing.T) {
	for want, names := range map[Direction][]string{
		Lower: {"SERVER_MEDIAN_TTFT", "SERVER_P99_E2EL", "FIRST_TOK_START_MS", "REQ_SETUP_MS", "LATENCY", "mean latency (us)", "LOAD_S", "errors", "TIME_PER_REQUEST_S", "seconds", "us", "RESPONSE_TIME"},
		Higher: {"OUTPUT_THROUGHPUT", "TPS", "QPS", "TOK_S", "tok/s", "TOKENS_PER_S", "OUTPUT_TOKENS_S", "REQUESTS_PER_SECOND", "WORK_PER_SEC", "req_s", "ACCURACY",
			"KV_BANDWIDTH", "GB/s", "GOODPUT", "IMAGES_S", "TFLOP_S", "TOKENS_PER_GPU_S", "TOKENS_PER_USER_S", "PROMPTS_S", "ITER_S",
			"CALLS_S", "KB_S", "GBIT_S", "KTOK_S", "REQUESTS_PER_MS"},
		Unknown: {"", "BATCH", "KV_HITS", "TIME_TO_THROUGHPUT", "TOKENS", "TITLE", "E2E_SUCCESS_RATE", "TTFT_SLO_ATTAINMENT", "LATENCY_SLO_MET_PCT", "BLOCKS_S", "s_curve"},
	} {
		for _, name := range names {
			if got := DirectionOf(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	old, fresh := sample("t", "BATCH", 100, 101, 102, 103), sample("t", "BATCH", 200, 201, 202, 203)
	for declared, want := range map[Direction]string{Unknown: Differs, Lower: Worse, Higher: Better} {
		list := Compare(Collect(old), Collect(fresh), .05, map[string]Direction{"BATCH": declared})
		if len(list) != 1 || list[0].Verdict != want {
			t.Errorf("%q: %+v", declared, list)
		}
	}
}
