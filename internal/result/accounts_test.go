package result

import (
	"encoding/json"
	"math"
	"testing"
)

func exactly(n int64) *int64 { return &n }

func TestAccountsLine(t *testing.T) {
	const mb = 1_000_000
	for _, c := range []struct {
		a             Accounts
		speaks        bool
		line, verdict string
	}{
		{Accounts{Library: "not asked", NICs: "not read", Total: Account{Plan: 655_360_000}}, false, "plan 655 MB", ""},
		// What a run of 10,000 requests of 64 KiB loses with the exporter's usual buffer.
		{Accounts{Total: Account{Plan: 655_360_000, Library: exactly(134_152_192), Lost: exactly(31_812)}}, true,
			"plan 655 MB, NIXL 134 MB (0.205: 31812 events lost, raise NIXL_TELEMETRY_BUFFER_SIZE)",
			"NIXL 0.205: 31812 events lost, raise NIXL_TELEMETRY_BUFFER_SIZE"},
		{Accounts{Total: Account{Plan: mb, Library: exactly(mb), Lost: exactly(0)}}, true,
			"plan 1.00 MB, NIXL 1.00 MB (1.000: every byte)", "NIXL 1.000: every byte"},
		{Accounts{Total: Account{Plan: mb, Library: exactly(mb)}}, true,
			"plan 1.00 MB, NIXL 1.00 MB (1.000: by request)", "NIXL 1.000: by request"},
		{Accounts{Total: Account{Library: exactly(0)}}, false, "plan 0 B, NIXL 0 B", ""}, // nothing was played
		{Accounts{Library: "NIXL's exporter x: refused", Missing: 2, Total: Account{Plan: mb}}, true,
			"plan 1.00 MB, NIXL unknown (NIXL's exporter x: refused)", ""},
		{Accounts{Missing: 2, Total: Account{Plan: mb, Library: exactly(mb / 2), Lost: exactly(0)}}, true,
			"plan 1.00 MB, NIXL 500 kB (0.500: agents that it does not count: 2)",
			"NIXL 0.500: agents that it does not count: 2"},
		{Accounts{Total: Account{Plan: mb, Library: exactly(2 * mb), Lost: exactly(0)}}, true,
			"plan 1.00 MB, NIXL 2.00 MB (2.000: more bytes than the plan)", "NIXL 2.000: more bytes than the plan"},
		{Accounts{Total: Account{Plan: 655 * mb, Between: 655 * mb, Sent: exactly(675_305_000)}}, true,
			"plan 655 MB, NICs 675 MB (1.031: headers)", "NICs 1.031: headers"},
		{Accounts{Total: Account{Plan: 800 * mb, Between: 400 * mb, Sent: exactly(404 * mb)}}, true,
			"plan 800 MB, between hosts 400 MB, NICs 404 MB (1.010: headers)", "NICs 1.010: headers"},
		{Accounts{Control: 300_000, Total: Account{Plan: mb, Between: mb, Sent: exactly(2 * mb)}}, true,
			"plan 1.00 MB, NICs 2.00 MB (2.000: headers and control messages)",
			"NICs 2.000: headers and control messages"},
		{Accounts{Total: Account{Plan: 100 * mb, Between: 100 * mb, Sent: exactly(130 * mb)}}, true,
			"plan 100 MB, NICs 130 MB (1.300: other traffic on the hosts, or bytes sent again)",
			"NICs 1.300: other traffic on the hosts, or bytes sent again"},
		// 3761 segments of 1514 bytes are 5.7 MB of what was sent more, with headers or without.
		{Accounts{Total: Account{Plan: 110 * mb, Between: 110 * mb, Messages: 105, Sent: exactly(116_700_000), Resent: 3761}}, true,
			"plan 110 MB, NICs 117 MB (1.061: headers, and 3761 segments sent again)",
			"NICs 1.061: headers, and 3761 segments sent again"},
		{Accounts{Total: Account{Plan: 110 * mb, Between: 110 * mb, Sent: exactly(124 * mb), Resent: 3761}}, true,
			"plan 110 MB, NICs 124 MB (1.127: headers, and 3761 segments sent again)",
			"NICs 1.127: headers, and 3761 segments sent again"},
		{Accounts{Total: Account{Plan: 110 * mb, Between: 110 * mb, Sent: exactly(154 * mb), Resent: 1}}, true,
			"plan 110 MB, NICs 154 MB (1.400: other traffic on the hosts, and 1 segment sent again)",
			"NICs 1.400: other traffic on the hosts, and 1 segment sent again"},
		// 20,000 messages of 4 KiB, half of which leave their host, add up to 512 bytes each; of 16 KiB none is small.
		{Accounts{Control: mb, Total: Account{Plan: 81_920_000, Between: 40_960_000, Messages: 20_000, Sent: exactly(46_653_440)}},
			true, "plan 81.9 MB, between hosts 41.0 MB, NICs 46.7 MB (1.139: headers and acknowledgements of small messages, " +
				"control messages)", "NICs 1.139: headers and acknowledgements of small messages, control messages"},
		{Accounts{Total: Account{Plan: 40_960_000, Between: 40_960_000, Messages: 10_000, Sent: exactly(81_920_000)}}, true,
			"plan 41.0 MB, NICs 81.9 MB (2.000: other traffic on the hosts, or bytes sent again)",
			"NICs 2.000: other traffic on the hosts, or bytes sent again"},
		{Accounts{Total: Account{Plan: 40_960_000, Between: 40_960_000, Messages: 2500, Sent: exactly(46_653_440)}}, true,
			"plan 41.0 MB, NICs 46.7 MB (1.139: other traffic on the hosts, or bytes sent again)",
			"NICs 1.139: other traffic on the hosts, or bytes sent again"},
		{Accounts{Total: Account{Plan: 100 * mb, Between: 100 * mb, Sent: exactly(0), Resent: 3}}, true,
			"plan 100 MB, NICs 0 B (0.000: fewer bytes than the plan: NICs that are not counted, RDMA without counters, " +
				"or shared memory carried the rest)",
			"NICs 0.000: fewer bytes than the plan: NICs that are not counted, RDMA without counters, " +
				"or shared memory carried the rest"},
		{Accounts{Total: Account{Plan: 100 * mb, Between: 100 * mb, Sent: exactly(0)}}, true,
			"plan 100 MB, NICs 0 B (0.000: fewer bytes than the plan: NICs that are not counted, RDMA without counters, " +
				"or shared memory carried the rest)",
			"NICs 0.000: fewer bytes than the plan: NICs that are not counted, RDMA without counters, " +
				"or shared memory carried the rest"},
		{Accounts{NICs: "host2 has no NIC that counts", Total: Account{Plan: mb, Between: mb}}, true,
			"plan 1.00 MB, NICs unknown (host2 has no NIC that counts)", ""},
		// Of 100 MB half went before the first phase, where no counter was read.
		{Accounts{Total: Account{Plan: 100 * mb, Between: 100 * mb, Unwatched: 50 * mb, Sent: exactly(52 * mb)}}, true,
			"plan 100 MB, NICs 52.0 MB (1.040 of 50.0 MB in phases: headers)", "NICs 1.040 of 50.0 MB in phases: headers"},
		// One host: its NICs have nothing to do with the plan.
		{Accounts{Total: Account{Plan: 100 * mb, Sent: exactly(5000)}}, false, "plan 100 MB", ""},
		{Accounts{Total: Account{Plan: 100 * mb, Sent: exactly(50 * mb)}}, false,
			"plan 100 MB, NICs 50.0 MB (other traffic, no message left its host)",
			"NICs other traffic, no message left its host"},
	} {
		c.a.Judge()
		if c.a.String() != c.line || c.a.Total.Verdict != c.verdict || c.a.Speaks() != c.speaks {
			t.Errorf("%+v:\n%q, speaks %v\n%q, want\n%q, %v\n%q", c.a.Total, c.a.String(), c.a.Speaks(), c.a.Total.Verdict,
				c.line, c.speaks, c.verdict)
		}
	}
}

// A phase is judged by its own bytes, and may have those of another at its edges.
func TestAccountsOfPhases(t *testing.T) {
	a := Accounts{Phases: []Account{{Phase: "warm-up", Between: 1e8, Sent: exactly(2e8)}, {Phase: "run", Between: 1e8, Sent: exactly(1.05e8)},
		{Phase: "quiet"}}}
	a.Judge()
	for i, want := range []string{
		"NICs 2.000: other traffic on the hosts, or bytes sent again (or the phase before or after counts them)",
		"NICs 1.050: headers", "",
	} {
		if got := a.Phases[i].Verdict; got != want {
			t.Errorf("phase %d: %q, want %q", i, got, want)
		}
	}
}

// What a file claims may be anything: no ratio comes of it that is not a number.
func TestAccountsOfAnyNumbers(t *testing.T) {
	values := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	for _, plan := range values {
		for _, n := range values {
			a := Accounts{Control: n, Total: Account{Plan: plan, Between: plan, Library: exactly(n), Lost: exactly(n), Sent: exactly(n), Messages: n, Resent: n}}
			a.Judge()
			for _, ratio := range []func() (float64, bool){a.Total.LibraryRatio, a.Total.NICRatio} {
				if r, ok := ratio(); ok && (plan <= 0 || math.IsNaN(r) || math.IsInf(r, 0)) {
					t.Errorf("plan %d, counted %d: ratio %v", plan, n, r)
				}
			}
			if data, err := json.Marshal(a); err != nil || a.String() == "" {
				t.Error(string(data), err)
			}
		}
	}
}
