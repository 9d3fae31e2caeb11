package parity

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// kept is what Qwen3-32B keeps of 16000 tokens.
var kept = Kept{Bytes: 4194304000, Requests: 1, DType: "bf16", Heads: 8}

// texts makes readings of texts, each with one from before unless that is empty.
func texts(t testing.TB, pairs ...[2]string) []Reading {
	t.Helper()
	var list []Reading
	for i, p := range pairs {
		var r Reading
		var err error
		if r.After, err = parse(fmt.Sprint("after", i), []byte(p[0])); err != nil {
			t.Fatal(err)
		}
		if p[1] != "" {
			if r.Before, err = parse(fmt.Sprint("before", i), []byte(p[1])); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, r)
	}
	return list
}

// The files of truth.json give its verdicts.
func TestTruth(t *testing.T) {
	data := must.Read(t, "testdata/truth.json")
	var truth struct {
		Expected int64 `json:"expected_bytes"`
		Cases    []struct {
			Metrics, Before string
			Verdict         Verdict
			Factor          float64
			Exit            fault.Kind
		}
	}
	if err := json.Unmarshal(data, &truth); err != nil || truth.Expected != kept.Bytes || len(truth.Cases) < 10 {
		t.Fatalf("%v, %d bytes, %d cases", err, truth.Expected, len(truth.Cases))
	}
	for _, c := range truth.Cases {
		after, err := Read(context.Background(), filepath.Join("testdata", c.Metrics))
		must.Do(t, err)
		reading := Reading{After: after}
		if c.Before != "" {
			if reading.Before, err = Read(context.Background(), filepath.Join("testdata", c.Before)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Judge([]Reading{reading}, nil, kept)
		switch {
		case c.Exit != 0:
			if fault.KindOf(err) != c.Exit {
				t.Errorf("%s: %v, want the exit code %d", c.Metrics, err, c.Exit)
			}
		case err != nil:
			t.Errorf("%s: %v", c.Metrics, err)
		case r.Verdict != c.Verdict || math.Abs(r.Factor-c.Factor) > 0.01*c.Factor || r.Why == "" || r.Answer == "":
			t.Errorf("%s: %+v, want %s, %v", c.Metrics, r, c.Verdict, c.Factor)
		}
	}
}

// A counter's texts, and what they say.
func TestJudge(t *testing.T) {
	const (
		vllm   = "vllm:nixl_bytes_transferred_sum"
		sglang = "sglang:kv_transfer_total_mb"
		tx, rx = "agent_tx_bytes_total", "agent_rx_bytes_total"
	)
	rank := func(n int, labels string, mb float64) string {
		return fmt.Sprintf("%s_sum{tp_rank=%q%s} %g\n%[1]s_count{tp_rank=%[2]q%[3]s} 1\n", sglang, fmt.Sprint(n), labels, mb)
	}
	histogram := "# TYPE " + sglang + " histogram\n"
	for name, c := range map[string]struct {
		texts   [][2]string
		kept    Kept
		metric  string
		moved   int64
		verdict Verdict
		says    string // in the reason or the notes
	}{
		"two hosts with the same labels": {
			texts: [][2]string{{vllm + "{engine=\"0\"} 4194304000", ""}, {vllm + "{engine=\"0\"} 4194304000", ""}},
			moved: 2 * kept.Bytes, verdict: Copies, metric: vllm, says: "TP 16 and 8 heads",
		},
		"each host less its own past": {
			texts: [][2]string{{vllm + " 2097152010", vllm + " 10"}, {vllm + " 2097152700", vllm + " 700"}},
			moved: kept.Bytes, verdict: Once, metric: vllm,
		},
		"a host without the counter": {
			texts: [][2]string{{"up 1", ""}, {vllm + " 4194304000", ""}}, moved: kept.Bytes, verdict: Once, metric: vllm,
		},
		"a sample that was not there before": {
			texts: [][2]string{{tx + "{pid=\"1\"} 7\n" + tx + "{pid=\"2\"} 4194304000", tx + "{pid=\"1\"} 7"}},
			moved: kept.Bytes, verdict: Once, metric: tx,
		},
		"a sample that is gone": {
			texts:   [][2]string{{tx + "{pid=\"2\"} 4194304000", tx + "{pid=\"1\"} 7"}},
			verdict: None, metric: tx, says: `agent_tx_bytes_total{pid="1"} is gone`,
		},
		"all samples gone": {
			texts: [][2]string{{"up 1", tx + " 7"}}, verdict: None, metric: tx, says: "is gone",
		},
		"NIXL reads, as vLLM pulls": {
			texts: [][2]string{{tx + " 0\n" + rx + " 4194304000", ""}}, moved: kept.Bytes, verdict: Once, metric: rx,
		},
		"NIXL in both directions": {
			texts: [][2]string{{tx + " 4194304000\n" + rx + " 1000000", ""}},
			moved: kept.Bytes, verdict: Once, metric: tx, says: "agent_rx_bytes_total is not counted: it rose by 1.00 MB",
		},
		"an engine's counter before the library's": {
			texts:   [][2]string{{tx + " 9000000000\n" + vllm + " 0", ""}},
			verdict: Nothing, metric: vllm, says: "agent_tx_bytes_total is not counted: it rose by 9.00 GB",
		},
		"events that were dropped before": {
			texts: [][2]string{{"agent_x_dropped 5\n" + tx + " 4194304007", "agent_x_dropped 5\n" + tx + " 7"}},
			moved: kept.Bytes, verdict: Once, metric: tx,
		},
		"events that were dropped": {
			texts:   [][2]string{{"agent_x_dropped_total 5\n" + tx + " 4194304007", ""}},
			verdict: None, metric: tx, says: "NIXL dropped 5 telemetry events, so at least 4.19 GB were moved",
		},
		"dropped events are nothing to an engine's counter": {
			texts: [][2]string{{"agent_x_dropped_total 5\n" + vllm + " 4194304000", ""}},
			moved: kept.Bytes, verdict: Once, metric: vllm,
		},
		"TP ranks that repeat": {
			texts: [][2]string{{histogram + rank(0, "", 4000) + rank(1, "", 4000), ""}},
			moved: kept.Bytes, verdict: Once, metric: sglang, says: "the 2 TP ranks of an engine have the same: counted once",
		},
		"TP ranks that count their heads": {
			texts: [][2]string{{histogram + rank(0, "", 1000) + rank(1, "", 1000) + rank(2, "", 1000) + rank(3, "", 1000), ""}},
			moved: kept.Bytes, verdict: Once, metric: sglang, says: "the 4 TP ranks of an engine have the same, together no more",
		},
		"TP ranks that differ": {
			texts: [][2]string{{histogram + rank(0, "", 4000) + rank(1, "", 4400), ""}},
			moved: 8400 << 20, verdict: Unknown, metric: sglang,
		},
		"two engines in a text": {
			texts: [][2]string{{histogram + rank(0, `,dp_rank="0"`, 4000) + rank(0, `,dp_rank="1"`, 4000), ""}},
			moved: 2 * kept.Bytes, verdict: Copies, metric: sglang,
		},
		"two engines in two texts": {
			texts: [][2]string{{histogram + rank(0, "", 4000), ""}, {histogram + rank(0, "", 4000), ""}},
			moved: 2 * kept.Bytes, verdict: Copies, metric: sglang,
		},
		"one TP rank alone": {
			texts: [][2]string{{histogram + rank(0, "", 1000), ""}},
			moved: kept.Bytes / 4, verdict: Unknown, metric: sglang, says: "--enable-metrics-for-all-schedulers",
		},
		"lines of a histogram without its type": {
			texts: [][2]string{{rank(0, "", 4000), ""}}, moved: kept.Bytes, verdict: Once, metric: sglang,
		},
		"a gauge of several requests": {
			texts: [][2]string{{"# TYPE " + sglang + " gauge\n" + sglang + " 2000", ""}},
			kept:  Kept{Bytes: kept.Bytes, Requests: 2}, verdict: None, metric: sglang, says: "the last transfer alone",
		},
		"a gauge and its past": {
			texts:   [][2]string{{"# TYPE " + sglang + " gauge\n" + sglang + " 4000", "# TYPE " + sglang + " gauge\n" + sglang + " 4000"}},
			verdict: None, metric: sglang, says: "the last transfer alone",
		},
		"beyond 63 bits": {
			texts: [][2]string{{"# TYPE " + sglang + " counter\n" + sglang + " 9e18", ""}}, verdict: None, metric: sglang, says: "beyond",
		},
		"as an editor leaves it": {
			texts: [][2]string{{"\ufeff# TYPE up gauge\r\nup 1\r\n" + vllm + " 4194304000", ""}},
			moved: kept.Bytes, verdict: Once, metric: vllm,
		},
	} {
		if c.kept.Bytes == 0 {
			c.kept = kept
		}
		r, err := Judge(texts(t, c.texts...), nil, c.kept)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := r.Why + "\n" + strings.Join(r.Notes, "\n")
		if r.Moved != c.moved || r.Verdict != c.verdict || r.Counter.Name != c.metric || !strings.Contains(said, c.says) {
			t.Errorf("%s: %+v\nwant %s, %d, %s, %q", name, r, c.verdict, c.moved, c.metric, c.says)
		}
	}
}

// The borders of the verdicts, and their words.
func TestVerdicts(t *testing.T) {
	bf16, fp8 := kept, kept
	fp8.DType = "fp8"
	mla := Kept{Bytes: kept.Bytes, DType: "bf16", Latents: true}
	for _, c := range []struct {
		factor      float64
		kept        Kept
		verdict     Verdict
		answer, why string
	}{
		{0, bf16, Nothing, "nothing moved", "kv_transfer_params"},
		{0.001, bf16, Unknown, "the factor 0.001; no known reason", ""},
		{0.991, bf16, Once, "moved once", ""},
		{1.009, bf16, Once, "moved once", ""},
		{1.011, bf16, Unknown, "the factor 1.01; no known reason", ""},
		{0.504, bf16, Half, "half: fp8 instead of bf16?", "--kv-cache-dtype"},
		{0.504, fp8, Half, "half", "there is no known reason"},
		{0.506, bf16, Unknown, "the factor 0.506; no known reason", ""},
		{0.25, bf16, Unknown, "the factor 0.25; no known reason", ""},
		{1.5, bf16, Unknown, "the factor 1.5; no known reason", ""},
		{2.01, bf16, Copies, "2 copies", "2 ranks hold, and received, each KV head, as with TP 16 and 8 heads"},
		{2, fp8, Copies, "2 copies", "or they are in 16 bit"},
		{8, mla, Copies, "8 copies", "each of 8 ranks that hold the latent vectors"},
		{64.05, mla, Copies, "64 copies", ""},
		{64.4, mla, Unknown, "the factor 64.4; no known reason", ""}, // near every number, by 1 %
	} {
		r := Result{Moved: int64(c.factor * float64(kept.Bytes)), Factor: c.factor}
		r.judge(c.kept)
		if r.Verdict != c.verdict || r.Answer != c.answer || !strings.Contains(r.Why, c.why) || r.Why == "" {
			t.Errorf("%v in %s: %+v", c.factor, c.kept.DType, r)
		}
	}
}

// What cannot be a counter's value gives no verdict.
func TestImpossibleValues(t *testing.T) {
	for text, says := range map[string]string{
		"agent_tx_bytes_total NaN":                                         "after0: agent_tx_bytes_total is NaN, wanted a number of at least 0",
		"agent_tx_bytes_total{a=\"b\"} +Inf":                               `agent_tx_bytes_total{a="b"} is +Inf`,
		"agent_tx_bytes_total -1":                                          "is -1",
		"agent_tx_bytes_total 1e19":                                        "is 1e+19",
		"agent_tx_bytes_total{a=\"b\"} 1\nagent_tx_bytes_total{a=\"b\"} 2": "stands there twice",
		"agent_tx_bytes_total 1\nagent_dropped NaN":                        "agent_dropped is NaN",
		"# TYPE vllm:nixl_bytes_transferred histogram\nvllm:nixl_bytes_transferred_bucket{le=\"+Inf\"} 3": "no known counter",
		"": "known are vllm:nixl_bytes_transferred_sum, sglang:kv_transfer_total_mb, agent_tx_bytes_total",
	} {
		_, err := Judge(texts(t, [2]string{text, ""}), nil, kept)
		must.Fail(t, err, fault.Input, says)
	}
	_, err := Judge(texts(t, [2]string{"agent_tx_bytes_total 1", "agent_tx_bytes_total NaN"}), nil, kept)
	must.Fail(t, err, fault.Input, "before0: agent_tx_bytes_total is NaN")
}

func TestNamedCounter(t *testing.T) {
	for text, want := range map[string]Counter{
		"vllm:nixl_bytes_transferred":     Counters[0],
		"sglang:kv_transfer_total_mb":     Counters[1],
		"sglang:kv_transfer_total_mb_sum": Counters[1],
		"kv_sent_bytes_total":             {Name: "kv_sent_bytes_total", Unit: 1},
		"x:kv_sent":                       {Name: "x:kv_sent", Unit: 1},
		"kv_sent_mb:MiB":                  {Name: "kv_sent_mb", Unit: 1 << 20},
		"x:kv_sent_mb_total:MB":           {Name: "x:kv_sent_mb_total", Unit: 1e6},
		"agent_other_bytes":               {Name: "agent_other_bytes", Unit: 1, Source: nixl},
	} {
		got, err := ParseCounter(text)
		if err != nil || got.Name != want.Name || got.Unit != want.Unit || got.Source != want.Source || got.Counts == "" {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"kv_sent_mb", "kv_sent_MiB", "kv_sent_gb_total", "kv_sent_kilobytes_sum"} {
		if _, err := ParseCounter(text); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), text+":MiB") {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := ParseCounter("kv_sent_mb:MiB")
	must.Do(t, err)
	text := [2]string{"kv_sent_mb{a=\"1\"} 2000\nkv_sent_mb{a=\"2\"} 2000\nagent_tx_bytes_total 5\nkv_bytes 3", ""}
	r, err := Judge(texts(t, text), &c, kept)
	if err != nil || r.Verdict != Once || r.Counter.Name != "kv_sent_mb" || len(r.Notes) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = Judge(texts(t, text), &Counter{Name: "kv_sendt", Unit: 1}, kept)
	must.Fail(t, err, fault.Input, "after0: there is no sample of kv_sendt | names with bytes or transfer in them there: agent_tx_bytes_total, kv_bytes")
}

// Whatever a text holds, it is refused or gives figures that can be.
func FuzzText(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(err, files)
	}
	for _, name := range files {
		text := must.Read(f, name)
		f.Add(text, []byte("agent_tx_bytes_total 5"))
	}
	f.Fuzz(func(t *testing.T, after, before []byte) {
		var r Reading
		var err error
		if r.After, err = parse("after", after); err != nil {
			return
		}
		if r.Before, err = parse("before", before); err != nil {
			r.Before = nil
		}
		got, err := Judge([]Reading{r}, nil, kept)
		if err != nil {
			if fault.KindOf(err) != fault.Input {
				t.Error(err)
			}
			return
		}
		if got.Moved < 0 || !(got.Factor >= 0) || math.IsInf(got.Factor, 0) || got.Why == "" ||
			(got.Verdict == Nothing) != (got.Verdict != None && got.Moved == 0) {
			t.Errorf("%+v", got)
		}
	})
}
