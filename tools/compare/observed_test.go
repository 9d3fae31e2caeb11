package compare

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
)

// over is a result whose messages went so: the way and how many.
func over(rng *rand.Rand, uses ...result.PathUse) *result.Document {
	d := document(1, 5, lognormal(rng, 1))
	if uses != nil {
		d.Paths = &result.Paths{Source: "UCX", Uses: uses}
	}
	return d
}

func use(op, transport, device, how string, count int64) result.PathUse {
	return result.PathUse{Op: op, Local: "dram", Remote: "dram", Transport: transport, Device: device, How: how, Count: count}
}

// A way that one side lacks is a change of the path; another share of the same ways, another operation and results
// that do not know it are none.
func TestPathsChanged(t *testing.T) {
	cma, tcp := use("WRITE", "cma", "memory", "zero-copy", 100), use("WRITE", "tcp", "lo", "zero-copy", 100)
	few, read := use("WRITE", "posix", "memory", "short", 4), use("READ", "cma", "memory", "zero-copy", 100)
	many := few
	many.Count = 50
	for name, c := range map[string]struct {
		old, fresh []result.PathUse
		want       []string
	}{
		"the same":          {[]result.PathUse{cma}, []result.PathUse{cma}, nil},
		"another transport": {[]result.PathUse{cma}, []result.PathUse{tcp}, []string{"the path of WRITE dram-dram changed: OLD cma zero-copy 100 %; NEW tcp/lo zero-copy 100 %"}},
		"a few more":        {[]result.PathUse{cma}, []result.PathUse{cma, few}, nil},
		"another share":     {[]result.PathUse{cma, many}, []result.PathUse{cma, few}, nil},
		"another way": {[]result.PathUse{cma, many}, []result.PathUse{cma}, []string{
			"the path of WRITE dram-dram changed: OLD cma zero-copy 67 %, posix short 33 %; NEW cma zero-copy 100 %"}},
		"another operation": {[]result.PathUse{cma}, []result.PathUse{read}, nil},
		"an old result":     {nil, []result.PathUse{cma}, nil},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		r := mustCompare(t, one(over(rng, c.old...)), one(over(rng, c.fresh...)), defaults)
		if diff := cmp.Diff(c.want, r.Paths); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Lines, ceilings and counters of congestion of both sides stand beside each other, where both have them.
func TestBeside(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	seen := func(ceiling float64, retransmits int64) *result.Document {
		d := over(rng, use("WRITE", "tcp", "eth0", "zero-copy", 9))
		d.World.Hosts = []result.Host{{Name: "h", Ranks: []int{0}, CPUs: 2}, {Name: "i", Ranks: []int{1}, CPUs: 2}}
		d.Line = &result.Line{Rate: 12.5e9, Ceiling: &result.Ceiling{Rate: ceiling}}
		nics := []result.NICWindow{{Name: "eth0", Counters: map[string]int64{"tx_discards": 0}}}
		d.Network = &result.Network{Windows: []result.NetworkWindow{
			{Phase: "workload", TCP: map[string]int64{"retransmits": retransmits, "fast_retransmits": retransmits}, NICs: nics},
			{Phase: "prepare", TCP: map[string]int64{"retransmits": 1e6}}, // in which nothing was measured
		}}
		return d
	}
	old, fresh := []*result.Document{seen(12e9, 0), seen(12.2e9, 0)}, []*result.Document{seen(6e9, 2100), seen(6.2e9, 2200)}
	r := mustCompare(t, old, fresh, defaults)
	want := []Beside{{"line", "12.5 GB/s", "12.5 GB/s"}, {"ceiling of one large message", "12.1 GB/s", "6.10 GB/s"},
		{"retransmitted TCP segments", "0", "2150"}}
	must.Equal(t, want, r.Beside)
	fresh[0].Paths.Uses[0].Device = "<b>evil\x1b[2J"
	r = mustCompare(t, old, fresh, defaults)
	var text, page, js bytes.Buffer
	must.Do(t, r.WriteText(&text, nil, false))
	must.Do(t, r.WriteHTML(&page))
	must.Do(t, r.WriteJSON(&js, nil))
	path, figure := strings.Index(text.String(), "# the path of WRITE"), strings.Index(text.String(), "geometric")
	if path < 0 || figure >= 0 && figure < path || text.String() != plaintext.Text(text.String()) ||
		!strings.Contains(text.String(), "# retransmitted TCP segments: OLD 0, NEW 2150\n") {
		t.Errorf("%s", text.String())
	}
	if strings.Contains(page.String(), "<b>evil") || !strings.Contains(page.String(), "the path of WRITE") ||
		!strings.Contains(page.String(), "<td>retransmitted TCP segments</td><td class=\"num\">0</td><td class=\"num\">2150</td>") {
		t.Error("the page lacks it, or is not escaped")
	}
	var out struct {
		Paths  []string `json:"path_changed"`
		Beside []Beside `json:"beside"`
	}
	if err := json.Unmarshal(js.Bytes(), &out); err != nil || len(out.Paths) != 1 || len(out.Beside) != 3 {
		t.Errorf("%v, %+v", err, out)
	}
	r = mustCompare(t, one(over(rng)), fresh, defaults)
	if len(r.Paths)+len(r.Beside) > 0 {
		t.Errorf("against an old result: %v %v", r.Paths, r.Beside)
	}
}
