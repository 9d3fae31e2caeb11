package model

import (
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

// known are all shipped models and all with known answers.
func known(t *testing.T) []*Model {
	t.Helper()
	var models []*Model
	for _, name := range Names() {
		models = append(models, mustNamed(t, name))
	}
	files, err := filepath.Glob("testdata/kv-*/*.json")
	must.Do(t, err)
	for _, file := range files {
		if name := filepath.Base(file); name != "truth.json" && name != "moves.json" {
			models = append(models, mustLoad(t, file))
		}
	}
	return models
}

// drawKeep makes what a layer keeps, of any kind.
func drawKeep(t *rapid.T) Keep {
	n := func(name string, most int64) int64 { return rapid.Int64Range(1, most).Draw(t, name) }
	k := Keep{Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind")}
	switch k.Kind {
	case Full, Window, Chunk, Cross:
		k.Heads, k.Key, k.Value = n("heads", 12), 2*n("key", 9), 2*n("value", 9)
	case MLA, IndexKey:
		k.Latent, k.Rope = 2*n("latent", 9), 2*n("rope", 9)
	case Compressed:
		k.Latent, k.Rope, k.Every, k.Packing = 2*n("latent", 9), 2*n("rope", 9), n("every", 9), packingV4
	case Indexer:
		k.Index, k.Every = n("index", 300), n("every", 9)
	case Mamba1:
		k.State = mamba1(8*n("inner", 9), n("state", 9), 1+n("kernel", 4))
	case Mamba2:
		heads, head := n("heads", 16), n("head", 9)
		k.State = mamba2(heads*head, heads, head, n("groups", 4), n("state", 9), 1+n("kernel", 4))
	case GDN:
		k.State = gatedDelta(n("key heads", 8), n("key", 9), n("value heads", 8), n("value", 9), 1+n("kernel", 4))
	case KDA:
		k.State = kimiDelta(n("heads", 8), n("head", 9), 1+n("kernel", 4))
	case Lightning:
		k.State = lightning(n("heads", 8), n("head", 9))
	case ShortConv:
		k.State = shortConv(8*n("hidden", 9), 1+n("kernel", 4))
	case CCA:
		k.State = convolved(n("queries", 8), n("kv heads", 8), 8*n("head", 9), n("columns", 4))
	case Ring:
		k.State = ring(n("bytes", 300))
	}
	switch k.Kind {
	case Window, Chunk:
		k.Last = n("last", 300)
	case Cross:
		k.Fixed = n("entries", 300)
	}
	return k
}

// drawCache makes a cache of a known model or of random groups, of any engine.
func drawCache(t *rapid.T, models []*Model, engines ...Serving) *Cache {
	m := rapid.SampledFrom(models).Draw(t, "model")
	if rapid.Bool().Draw(t, "random") {
		m = &Model{Name: "random", Layers: rapid.Int64Range(1, 9).Draw(t, "layers"), recurrent: rapid.Bool().Draw(t, "recurrent")}
		for range rapid.IntRange(1, 5).Draw(t, "groups") {
			layers := rapid.SliceOfN(rapid.Int64Range(0, m.Layers-1), 1, 9).Draw(t, "of layers")
			slices.Sort(layers)
			m.Groups = append(m.Groups, Group{Keep: drawKeep(t), Layers: layers})
		}
	}
	dtype, err := m.ParseDType(rapid.SampledFrom([]string{"bf16", "fp8"}).Draw(t, "dtype"))
	must.Do(t, err)
	c, err := m.Cache(Options{DType: dtype, Serving: rapid.SampledFrom(engines).Draw(t, "engine"),
		Page: rapid.SampledFrom([]int64{1, 3, 16, 64, 128, 256}).Draw(t, "page")})
	must.Do(t, err)
	return c
}

var everyEngine = []Serving{Exact, VLLM, SGLang, TRTLLM}

func sum(t *rapid.T, c *Cache, tokens int64) (kv, state int64) {
	kv, state, err := c.Bytes(tokens)
	must.Do(t, err)
	return kv, state
}

// More tokens never take less, and no layer takes more than one that keeps all of them by themselves.
func TestBytesGrow(t *testing.T) {
	models := known(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawCache(t, models, everyEngine...)
		tokens := rapid.Int64Range(1, 1<<17).Draw(t, "tokens")
		kv, state := sum(t, c, tokens)
		whole := *c.Model
		whole.Groups = slices.Clone(whole.Groups)
		for i := range whole.Groups {
			whole.Groups[i].Last, whole.Groups[i].Every = 0, 0
		}
		full, err := whole.Cache(c.Options)
		must.Do(t, err)
		if most, same := sum(t, full, tokens); kv > most || state != same {
			t.Errorf("%d and %d bytes, with all tokens everywhere %d and %d", kv, state, most, same)
		}
		c.Serving = Exact
		for i, g := range c.Model.Groups {
			if n, _ := c.LayerBytes(i, 0, tokens, tokens); n != g.Entries(tokens)*c.EntryBytes(i) {
				t.Errorf("%+v: %d bytes, and %d entries of %d", g.Keep, n, g.Entries(tokens), c.EntryBytes(i))
			}
		}
		kv, _ = sum(t, c, tokens)
		if more, same := sum(t, c, tokens+rapid.Int64Range(0, 1000).Draw(t, "more")); more < kv || same != state {
			t.Errorf("%d bytes of more tokens than those of %d", more, kv)
		}
	})
}

// Tokens in chunks, and layers in stages, add up to the whole.
func TestPartsAddUp(t *testing.T) {
	models := known(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawCache(t, models, everyEngine...)
		tokens := rapid.Int64Range(1, 1<<17).Draw(t, "tokens")
		a := rapid.Int64Range(0, tokens).Draw(t, "a")
		b := rapid.Int64Range(a, tokens).Draw(t, "b")
		for i := range c.Model.Groups {
			var parts int64
			for _, part := range [][2]int64{{0, a}, {a, b}, {b, tokens}} {
				n, ok := c.GroupBytes(i, part[0], part[1], tokens)
				if !ok || n < 0 {
					t.Fatalf("%d bytes, %v", n, ok)
				}
				parts += n
			}
			if whole, _ := c.GroupBytes(i, 0, tokens, tokens); parts != whole {
				t.Errorf("group %d, %+v: the chunks have %d bytes, the whole %d", i, c.Model.Groups[i].Keep, parts, whole)
			}
		}
		first := rapid.Int64Range(0, c.Model.Layers).Draw(t, "first")
		end := rapid.Int64Range(first, c.Model.Layers).Draw(t, "end")
		var kv, state int64
		for _, stage := range [][2]int64{{0, first}, {first, end}, {end, c.Model.Layers}} {
			n, s := sum(t, c.Stage(stage[0], stage[1]), tokens)
			kv, state = kv+n, state+s
		}
		if wholeKV, wholeState := sum(t, c, tokens); kv != wholeKV || state != wholeState {
			t.Errorf("the stages have %d and %d bytes, the whole %d and %d", kv, state, wholeKV, wholeState)
		}
	})
}

// All ranks together hold the whole, and what is copied as often as it is. The group that a Mamba 2 copies is apart.
func TestRanksAddUp(t *testing.T) {
	models := known(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawCache(t, models, Exact)
		tp := rapid.SampledFrom([]int64{1, 2, 3, 4, 8, 16, 64}).Draw(t, "tp")
		if c.Model.CheckTP(tp) != nil {
			return
		}
		tokens := rapid.Int64Range(1, 1<<17).Draw(t, "tokens")
		var want, copied int64
		for i, g := range c.Model.Groups {
			n, _ := c.GroupBytes(i, 0, tokens, tokens)
			want += n * g.Copies(tp)
			copied += g.CopiedBytes() * int64(len(g.Layers)) * (tp - 1)
		}
		if kv, state := sum(t, c.Rank(tp), tokens); (kv+state)*tp != want+copied {
			t.Errorf("%d ranks of %d and %d bytes, want %d", tp, kv, state, want+copied)
		}
	})
}
