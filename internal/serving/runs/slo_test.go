package runs

import (
	"math"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

func TestParseAndKeep(t *testing.T) {
	r := New("f")
	r.Set(TTFT, P90, 500)
	r.Hosts = []Host{{TP: 4, GPUs: 4}, {TP: 8, GPUs: 8}}
	for text, want := range map[string]bool{
		"P90_TTFT_ms<=500": true, " p90_ttft_ms <= 500 ": true, "P90_TTFT_ms<500": false, "P90_TTFT_ms>=500": true, "P90_TTFT_ms > 5e2": false, "P90_TTFT_ms<=0.5s": true, "P90_TTFT_ms<=499999us": false,
		"P99_TTFT_ms<=500": false, "P99_TTFT_ms>=-1": false, // not known, not kept
		"TP>=1": false, // two values are no number
	} {
		s, err := ParseSLO(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if s.Keeps(r) != want {
			t.Errorf("%s is %v", text, !want)
		}
	}
}

// A latency without a statistic, and a time alone, are bounds on the tail that the runs have.
func TestSettle(t *testing.T) {
	llmd, vllm, none := New("llmd"), New("vllm"), New("none")
	for _, r := range []*Record{llmd, vllm} {
		r.Set(TTFT, P99, 500)
		r.Set(TTFT, Mean, 200)
		r.Set(E2EL, Mean, 900)
	}
	llmd.Set(TTFT, P90, 400)
	for text, want := range map[string][2]string{
		"TTFT<=500ms": {"P90_TTFT_ms<=500", "P99_TTFT_ms<=500"}, "ttft_ms < 0.5s": {"P90_TTFT_ms<500", "P99_TTFT_ms<500"},
		"20s": {"Mean_E2EL_ms<=20000", "Mean_E2EL_ms<=20000"}, "P50_TTFT_ms<=1": {"P50_TTFT_ms<=1", "P50_TTFT_ms<=1"},
	} {
		for i, all := range [][]*Record{{llmd, none}, {llmd, vllm}} {
			slos, err := ParseSLOs([]string{text})
			must.Do(t, err)
			notes := Settle(slos, all)
			if got := slos[0].String(); got != want[i] || (len(notes) == 0) != (text == want[i]) {
				t.Errorf("%s: %s, want %s; %q", text, got, want[i], notes)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"P90_TTFT_ms":         `SLO "P90_TTFT_ms": wanted <, <=, > or >= at character 12, got the end`,
		"P90_TTFT_m<=5":       `SLO "P90_TTFT_m<=5", character 1: there is no column "P90_TTFT_m"; did you mean "P90_TTFT_ms"?`,
		"Model<=5":            `SLO "Model<=5", character 1: the column Model holds text, and a number is needed`,
		"P90_TTFT_ms<=":       `SLO "P90_TTFT_ms<=": wanted a number at character 14, got the end`,
		"P90_TTFT_ms<=NaN":    `SLO "P90_TTFT_ms<=NaN": wanted a number at character 14, got "NaN"`,
		"P90_TTFT_ms<=inf":    `SLO "P90_TTFT_ms<=inf": wanted a number at character 14, got "inf"`,
		"1<=P90_TTFT_ms<=500": `SLO "1<=P90_TTFT_ms<=500": wanted a column, one of <= < >= >, and a number at character 1, got "1<=P90_TTFT_ms<=500"`,
		"P90_TTFT_ms==5":      `SLO "P90_TTFT_ms==5": wanted <, <=, > or >= at character 12, got "==5"`,
		"P90_TTFT_ms<=5K":     `SLO "P90_TTFT_ms<=5K": wanted a number, or a time such as 1.5ms at character 14, got "5K"`,
	} {
		if _, err := ParseSLO(text); err == nil || err.Error() != want || fault.KindOf(err) != fault.Usage {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"P90_TTFT_ms<=500", "Thpt_per_User>50", "<", "TP>=1e309", "x<=1"} {
		f.Add(s)
	}
	fuzztest.Run(f, []string{"P90_TTFT_ms", "Thpt_per_User", "TP", "<", ">", "=", ">=", "<=", "-5", " ", "-", "1", "5", "0", ".", "e", "x"}, func(t *testing.T, text string) {
		s, err := ParseSLO(text)
		if err != nil {
			if fault.KindOf(err) != fault.Usage {
				t.Fatal(err)
			}
			return
		}
		again, err := ParseSLO(s.String())
		if err != nil || again != s || math.IsNaN(s.Limit) {
			t.Fatalf("%q became %q, which is %+v, %v", text, s, again, err)
		}
	})
}
