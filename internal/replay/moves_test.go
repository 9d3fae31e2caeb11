package replay

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/model"
)

// movesDir has model files and moves.json: what engines move between two workers, by a separate program.
const movesDir = "../model/testdata/kv-moves"

// TestMoves compares what each decode rank receives with known answers. Those with pipelines and attention groups,
// which a replay has not, are matgen's.
func TestMoves(t *testing.T) {
	type side struct{ Workers, TP, PP, DP int }
	text := must.Read(t, filepath.Join(movesDir, "moves.json"))
	var doc struct {
		Cases []struct {
			Name, Model, Serving string
			Prefill, Decode      side
			Page                 *int64 `json:"page_size"`
			Tokens               []int
			Replicas             model.Replicas
			Total                int64   `json:"total_bytes"`
			Ranks                []int64 `json:"decode_rank_bytes"`
		}
	}
	must.Do(t, json.Unmarshal(text, &doc))
	played := 0
	for _, c := range doc.Cases {
		if max(c.Prefill.PP, c.Prefill.DP, c.Decode.PP, c.Decode.DP) > 1 {
			continue
		}
		name := c.Model
		if strings.HasSuffix(name, ".json") {
			name = filepath.Join(movesDir, name)
		}
		m, err := model.Load(name)
		must.Do(t, err)
		flags := model.Flags{Served: model.Served{Serving: c.Serving, PageSize: c.Page}}
		o := options(nil)
		o.Prefill, o.Decode, o.Replicas = model.Workers{N: c.Prefill.Workers, TP: c.Prefill.TP}, model.Workers{N: c.Decode.Workers, TP: c.Decode.TP}, c.Replicas
		if o.Model, err = flags.Cache(m, int64(c.Decode.TP)); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for i, n := range c.Tokens {
			lines = append(lines, line(i, n))
		}
		s := mustMake(t, traceOf(t, lines...), o)
		received, total := make([]int64, o.Decode.Ranks()), int64(0)
		for i := range s.Transfers {
			for _, p := range s.Parts(nil, i) {
				received[p.To-o.Prefill.Ranks()] += p.Bytes()
				total += p.Bytes()
			}
		}
		slices.Sort(received)
		if total != c.Total || s.Bytes != total || c.Ranks != nil && !slices.Equal(received, c.Ranks) {
			t.Errorf("%s: %d bytes, of ranks %v, want %d and %v", c.Name, total, received, c.Total, c.Ranks)
		}
		played++
	}
	if played < 30 {
		t.Errorf("%d cases were compared", played)
	}
}
