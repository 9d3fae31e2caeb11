package matgen

import (
	"slices"
	"strings"

	"perigee/internal/model"
)

// The oracle is a second account of what engines move, written from the layouts of the engines and not from the
// product's code. It lists every layer, head and page that a decode rank receives, one by one, and has no formula for
// their number.

// oracleWorker is the parallelism of a worker.
type oracleWorker struct{ TP, PP, DP int64 }

// group is the number of ranks of a stage among which a request lives.
func (w oracleWorker) group() int64 { return w.TP / max(w.DP, 1) }

// oracleSet is a model, a prefill and a decode worker, and an engine.
type oracleSet struct {
	model           *model.Model
	prefill, decode oracleWorker
	serving         string // vllm, sglang, trtllm; empty or none: what the model keeps
	page            int64  // tokens of a page; 0: the engine's own
	dtype           string // of the cache: bf16, fp8, fp8_ds_mla
	split           bool   // each byte once in all
}

// received lists the bytes that each decode rank receives of a request of so many tokens: group() ranks of each stage,
// stage after stage. total is their sum, and of a split set the bytes of what is no copy.
func (s *oracleSet) received(tokens int64) (ranks []int64, total int64) {
	ranks = make([]int64, s.stages()*s.decode.group())
	seen := map[piece]bool{}
	for g, group := range s.model.Groups {
		pages := s.pages(group.Keep, tokens)
		sums := map[int64]int64{} // of all pages, by the bytes of an entry
		for nth, layer := range group.Layers {
			first := s.stage(layer) * s.decode.group()
			for rank := range s.decode.group() {
				for _, h := range s.held(group.Keep, rank) {
					bytes, ok := sums[h.bytes]
					if !ok {
						bytes = s.pagesBytes(h.bytes, pages)
						sums[h.bytes] = bytes
					}
					ranks[first+rank] += bytes * h.times
					p := piece{g, nth, h.part}
					if !s.split {
						total += bytes * h.times
					} else if !seen[p] {
						seen[p] = true
						total += bytes
					}
				}
			}
		}
	}
	return ranks, total
}

// piece is what no rank holds a part of: a head, a vector for all heads, or a rank's cut of a state.
type piece struct {
	group, nth int   // the layer: the nth of the group
	part       int64 // of its cache, as in a holding
}

// wholePart is the number of a part that all ranks hold.
const wholePart = -1

// holding is a piece that a decode rank holds.
type holding struct {
	part  int64 // number of the head or of the rank, or wholePart
	bytes int64 // of an entry, or of a state
	times int64 // how often the rank receives it
}

// held lists what a decode rank holds of a layer's cache.
func (s *oracleSet) held(k model.Keep, rank int64) (all []holding) {
	ranks := s.decode.group()
	switch {
	case k.Kind == model.SharedKV:
		return nil
	case k.State != model.State{}:
		cut := k.State.Conv/ranks*2 + k.State.SSM/ranks*s.stateBytes(k.Kind)
		return []holding{{rank, cut, 1}, {wholePart, k.State.ConvCopied * 2, 1}}
	case k.Heads == 0:
		return []holding{{wholePart, s.entryBytes(k), 1}}
	}
	for _, head := range headsOf(k.Heads, rank, ranks) {
		all = append(all, holding{head, s.entryBytes(k), s.senders(k.Heads, head, rank)})
	}
	return all
}

// headsOf lists the KV heads that a rank of a group has.
func headsOf(heads, rank, ranks int64) (own []int64) {
	if ranks > heads {
		return []int64{rank * heads / ranks}
	}
	for head := range heads {
		if head/(heads/ranks) == rank {
			own = append(own, head)
		}
	}
	return own
}

// senders counts the prefill ranks that send a head to a decode rank: one of those that hold it, or all partners of
// the decode rank under SGLang, which has partners where the prefill worker has more ranks.
func (s *oracleSet) senders(heads, head, rank int64) (n int64) {
	a, b := s.prefill.group(), s.decode.group()
	if s.serving != "sglang" || s.split || a <= b {
		return 1
	}
	for sender := range a {
		if sender/(a/b) == rank && slices.Contains(headsOf(heads, sender, a), head) {
			n++
		}
	}
	return n
}

// pagesBytes adds up the pages of one head or vector, with so many entries each.
func (s *oracleSet) pagesBytes(entry int64, pages []int64) (bytes int64) {
	align := s.align()
	for _, entries := range pages {
		page := entries * entry
		for page%align != 0 {
			page++
		}
		bytes += page
	}
	return bytes
}

// align is what the pages of DeepSeek-V4 are padded to a multiple of, in bytes. Pages that hold no whole entry for 128
// tokens are none of an engine's.
func (s *oracleSet) align() int64 {
	switch {
	case !s.has(model.Compressed) || s.block()%128 != 0:
		return 1
	case s.dtype == "fp8_ds_mla" && s.serving != "trtllm":
		return 576
	case s.serving == "vllm":
		return 512
	}
	return 1
}

// entryBytes are the bytes of a token, or of an entry for several, in one head or vector.
func (s *oracleSet) entryBytes(k model.Keep) int64 {
	value := map[string]int64{"bf16": 2, "fp8": 1, "fp8_ds_mla": 1}[s.dtype]
	switch {
	case k.Kind == model.Indexer: // fp8, and a float32 for every 128 of them
		scales := int64(0)
		for i := int64(0); i < k.Index; i += 128 {
			scales++
		}
		return k.Index + 4*scales
	case k.Heads > 0:
		return (k.Key + k.Value) * value
	case s.dtype == "fp8_ds_mla" && s.has(model.Compressed): // the rotated part in bf16, 8 bytes of scales
		return k.Latent + k.Rope*2 + 8
	case s.dtype == "fp8_ds_mla": // the rotated part in bf16, a float32 for every 128 of the others
		return k.Latent + k.Rope*2 + k.Latent/128*4
	}
	return (k.Latent + k.Rope) * value
}

// stateBytes are the bytes of a value of a recurrence.
func (s *oracleSet) stateBytes(kind model.Kind) int64 {
	switch {
	case s.serving == "trtllm" || s.model.StateDType == "bfloat16":
		return 2
	case s.model.StateDType == "float32" || kind == model.KDA || s.serving != "vllm":
		return 4
	}
	return 2 // vLLM: the precision of the model
}

// pages lists the pages that move of a cache of one layer, by the entries in each. Without an engine a page is a token.
func (s *oracleSet) pages(k model.Keep, tokens int64) (pages []int64) {
	if k.State != (model.State{}) {
		return []int64{1}
	}
	if k.Fixed > 0 {
		return slices.Repeat([]int64{1}, int(k.Fixed))
	}
	if s.serving == "vllm" && tokens > 1 &&
		(s.has(model.Mamba1) || s.has(model.Mamba2) || s.has(model.GDN) || s.has(model.KDA)) {
		tokens-- // the decoder makes the last one again
	}
	size := s.block()
	for from := int64(0); from < tokens; from += size {
		var entries int64
		for token := from; token < from+size; token++ {
			if (token+1)%max(k.Every, 1) == 0 {
				entries++
			}
		}
		pages = append(pages, entries)
	}
	return pages[s.skipped(k, tokens, len(pages)):]
}

// skipped counts the pages in front that do not move, because a layer's window has left them.
func (s *oracleSet) skipped(k model.Keep, tokens int64, pages int) (n int) {
	keeps := 0 // pages at the end
	switch {
	case k.Last == 0:
		return 0
	case s.serving == "vllm" && k.Kind == model.Chunk:
		return 0
	case s.serving == "vllm":
		for int64(keeps)*s.block() < k.Last {
			keeps++
		}
		keeps++
	case s.serving == "trtllm":
		for int64(keeps+1)*s.block() <= k.Last {
			keeps++
		}
		keeps++
	case s.serving == "sglang":
		first := s.poolStart(k, tokens)
		for int64(n+1)*s.block() <= first {
			n++
		}
		return n
	default:
		keeps = int(k.Last)
	}
	return max(0, pages-keeps)
}

// pools are the families for whose windows SGLang has a pool, with the tokens of a window that it does not count.
var pools = map[string]int64{
	"gpt_oss": 1, "gemma4": 1, "granite_swa": 1, "beam": 1, "laguna": 1, "mellum": 1, "muse_glimmer": 1,
	"llama4": 0, "mimo_v2_flash": 0, "step3p5": 0, "step3p7": 0, "deepseek_v4": 0,
}

// family is the model's, as one spelling.
func (s *oracleSet) family() string {
	return strings.TrimSuffix(strings.ReplaceAll(s.model.Family, "-", "_"), "_text")
}

// poolStart is the first token of a window that SGLang sends.
func (s *oracleSet) poolStart(k model.Keep, tokens int64) int64 {
	less, ok := pools[s.family()]
	if !ok {
		return 0
	}
	return max(0, tokens-(k.Last-less))
}

// block is the number of tokens of a page. vLLM enlarges it until a page is as large as a layer's state.
func (s *oracleSet) block() int64 {
	page := s.page
	if page == 0 {
		page = s.ownPage()
	}
	if s.serving == "" || s.serving == "none" {
		return 1
	}
	token, state := s.tokenBytes(), s.layerState()
	if s.serving != "vllm" || state == 0 || token == 0 {
		return page
	}
	page = max(page, 16)
	if s.has(model.MLA) {
		page = max(page, 128)
	}
	block := page
	for block*token < state {
		block += page
	}
	return block
}

// ownPage is the engine's page where the user gives none.
func (s *oracleSet) ownPage() int64 {
	type engine struct{ plain, mla, dsa, v4 int64 }
	e := map[string]engine{"vllm": {16, 64, 64, 256}, "sglang": {1, 1, 64, 256}, "trtllm": {32, 32, 32, 32}}[s.serving]
	switch {
	case s.has(model.Compressed):
		return e.v4
	case s.has(model.Indexer):
		return e.dsa
	case s.has(model.MLA):
		return e.mla
	}
	return e.plain
}

// tokenBytes are the bytes of a token's attention in one layer of a decode rank. All attention layers of a model with
// states are alike here.
func (s *oracleSet) tokenBytes() (bytes int64) {
	for _, g := range s.model.Groups {
		if (g.State != model.State{} || g.Kind == model.SharedKV) {
			continue
		}
		for _, h := range s.held(g.Keep, 0) {
			bytes += h.bytes
		}
		return bytes
	}
	return 0
}

// layerState are the bytes of the state of one layer of a decode rank, 0 without any.
func (s *oracleSet) layerState() (bytes int64) {
	for _, g := range s.model.Groups {
		if (g.State == model.State{}) {
			continue
		}
		for _, h := range s.held(g.Keep, 0) {
			bytes += h.bytes
		}
		return bytes
	}
	return 0
}

func (s *oracleSet) has(kind model.Kind) bool {
	return slices.ContainsFunc(s.model.Groups, func(g model.Group) bool { return g.Kind == kind })
}

// stages are those of the decode worker.
func (s *oracleSet) stages() int64 { return max(s.decode.PP, 1) }

// stage is the stage of the decode worker that has a layer: it deals out the layers in order, and those that are left
// over to the stages that the engine gives them.
func (s *oracleSet) stage(layer int64) int64 {
	stages := s.stages()
	least, left := s.model.Layers/stages, s.model.Layers%stages
	sizes := slices.Repeat([]int64{least}, int(stages))
	for i := range left {
		switch s.serving {
		case "sglang": // the last ones
			sizes[stages-1-i]++
		case "vllm": // from the last but one backwards
			sizes[stages-2-i]++
		default: // the first ones
			sizes[i]++
		}
	}
	stage := int64(0)
	for end := sizes[0]; layer >= end; end += sizes[stage] {
		stage++
	}
	return stage
}
