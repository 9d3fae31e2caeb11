package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
)

// Replicas says what decode ranks receive that hold the same part of a cache.
type Replicas string

// What they may receive. Engines send to each rank all that it holds, from outside the worker.
const (
	ReplicasFull  Replicas = "full"  // each all of it
	ReplicasSplit Replicas = "split" // each another part, and the rest comes from the other ranks of its worker
)

// Move says which bytes of a cache go from which rank to which, from an attention group of From ranks of a prefill
// worker to one of To ranks of a decode worker. One of the numbers is a multiple of the other, and the cache can be cut
// among either ([Model.CheckCut]). The ranks of a group are those of tensor parallelism that hold a request together:
// all of a worker, or with attention DP tp / dp of them.
//
// This is the only place that decides who receives what. A decode rank receives all that it holds: a share of the KV
// heads, or a copy of one; latent vectors, index keys and compressed entries whole; a share of each state.
type Move struct {
	Serving  Serving
	Replicas Replicas // empty: full
	From, To int64
}

// Pairs are the pairs of ranks that exchange a cache: each decode rank with those prefill ranks whose shares of it meet
// its own.
func (m Move) Pairs() int64 { return max(m.From, m.To) }

// Senders are the pairs of a decode rank.
func (m Move) Senders() int64 { return max(1, m.From/m.To) }

// Ranks are the sender and the receiver of a pair, from 0 in their groups.
func (m Move) Ranks(pair int64) (from, to int64) {
	return pair * m.From / m.Pairs(), pair * m.To / m.Pairs()
}

// Share says how the bytes of a group of layers are shared out. All decode ranks together hold Parts different parts,
// each at Copies of them. A part comes in Pieces of Step senders each, of which the first sends, or each (Repeat).
type Share struct {
	Parts, Copies int64
	Pieces, Step  int64
	Repeat        bool
	Split         int64 // pairs that share out the pages that all of them hold; 0: none do
}

// Share is that of what a layer keeps, but for the part of a state that each rank holds whole, which moves as a latent
// vector does.
//
// Where several prefill ranks hold what a decode rank lacks, one sends it; with SGLang each sends the KV heads that it
// holds, copies too.
func (m Move) Share(k Keep) Share {
	if m.Replicas == ReplicasSplit {
		return Share{Parts: m.To, Copies: 1, Pieces: m.Senders(), Step: 1, Split: k.Copies(m.Pairs())}
	}
	s := Share{Copies: k.Copies(m.To)}
	s.Parts = m.To / s.Copies
	s.Step = min(k.Copies(m.From), m.Senders())
	s.Pieces = m.Senders() / s.Step
	s.Repeat = m.Serving == SGLang && k.Heads > 0
	return s
}

// Times is how often each byte crosses the network.
func (s Share) Times() int64 {
	if s.Repeat {
		return s.Copies * s.Step
	}
	return s.Copies
}

// place returns which part, and which piece of it, a pair moves; ok is false where it moves nothing.
func (s Share) place(pair int64) (part, piece int64, ok bool) {
	senders := s.Pieces * s.Step
	i := pair % senders
	return pair / senders / s.Copies, i / s.Step, s.Repeat || i%s.Step == 0
}

// Piece is what a pair moves of so many bytes of a group, in whole bytes; ok is false where others move all for it.
func (s Share) Piece(bytes, pair int64) (n int64, ok bool) {
	part, piece, ok := s.place(pair)
	if !ok {
		return 0, false
	}
	return EvenPart(EvenPart(bytes, s.Parts, part), s.Pieces, piece), true
}

// Pages are what a pair moves of so many pages of so many bytes each.
func (s Share) Pages(count, bytes, pair int64) (pages, each int64) {
	if s.Split > 0 {
		pairs := s.Parts * s.Pieces
		return EvenPart(count, s.Split, pair%s.Split), EvenPart(bytes, pairs/s.Split, pair/s.Split)
	}
	each, ok := s.Piece(bytes, pair)
	if !ok {
		return 0, 0
	}
	return count, each
}

// Lot is what moves of a group of layers in one way.
type Lot struct {
	Share
	Bytes int64 // once
}

// Lots are those of so many bytes of a group, in which there are so many states: one, or of a state that ranks hold in
// part whole, two.
func (m Move) Lots(k Keep, bytes, states int64) []Lot {
	lots := []Lot{{m.Share(k), bytes}}
	if copied := k.CopiedBytes() * states; copied > 0 {
		lots[0].Bytes -= copied
		lots = append(lots, Lot{m.Share(Keep{Kind: MLA}), copied})
	}
	return slices.DeleteFunc(lots, func(l Lot) bool { return l.Bytes == 0 })
}

// Bytes are all that crosses the network of a request of so many tokens, of which the decode worker has some already.
// ok is false where they do not fit 63 bits.
func (m Move) Bytes(c *Cache, cached, tokens int64) (sum int64, ok bool) {
	from := c.Kept(cached, tokens)
	for i, g := range c.Model.Groups {
		bytes, ok := c.GroupBytes(i, from, tokens, tokens)
		if !ok {
			return 0, false
		}
		for _, l := range m.Lots(g.Keep, bytes, int64(len(g.Layers))) {
			n, ok := product(l.Bytes, l.Times())
			if !ok || n > math.MaxInt64-sum {
				return 0, false
			}
			sum += n
		}
	}
	return sum, true
}

// Holders are the most decode ranks that hold the same part of a cache.
func (m Move) Holders(of *Model) int64 {
	most := int64(1)
	for _, g := range of.Groups {
		if g.Kind != SharedKV {
			most = max(most, g.Copies(m.To))
		}
	}
	return most
}

// Text says in words who receives what other ranks receive, too; empty where every byte crosses once.
func (m Move) Text(of *Model) string {
	holders := m.Holders(of)
	if m.Replicas == ReplicasSplit && holders > 1 {
		return fmt.Sprintf("%d decode ranks hold the same cache and each receives 1/%d of it (split), the rest must move "+
			"inside the worker", holders, holders)
	}
	heads, repeated := int64(1), int64(1)
	var whole []string
	add := func(what string) {
		if what != "" && !slices.Contains(whole, what) {
			whole = append(whole, what)
		}
	}
	for _, g := range of.Groups {
		s := m.Share(g.Keep)
		switch {
		case g.Heads > 0:
			heads = max(heads, s.Copies)
			if s.Repeat {
				repeated = max(repeated, s.Step)
			}
		case g.CopiedBytes() > 0 && m.To > 1:
			add(wholeWords[g.Kind])
		case s.Copies > 1:
			add(wholeWords[g.Kind])
		}
	}
	var texts []string
	if whole != nil {
		texts = append(texts, fmt.Sprintf("each of %d decode ranks receives %s", m.To, strings.Join(whole, " and ")))
	}
	if heads > 1 {
		texts = append(texts, fmt.Sprintf("each KV head goes to %d decode ranks", heads))
	}
	if repeated > 1 {
		texts = append(texts, fmt.Sprintf("%d prefill ranks send the same KV heads (SGLang)", repeated))
	}
	return strings.Join(texts, ", ")
}

// Check returns why no cache can go so: an error of the kind Usage.
func (m Move) Check() error {
	if m.From%m.To != 0 && m.To%m.From != 0 {
		return fault.New(fault.Usage, "of TP %d and %d one must be a multiple of the other", m.From, m.To)
	}
	return nil
}

// Notes are what users must know of a cache that moves so, a sentence each: what is not counted, and what an engine
// refuses.
func (m Move) Notes(of *Model) []string {
	notes := of.Notes()
	if m.Serving == VLLM && m.From > m.To {
		notes = append(notes, fmt.Sprintf("vLLM's NIXL connector refuses a prefill TP above the decode TP "+
			"(%d above %d ranks that hold a request)", m.From, m.To))
	}
	if of.Heads > 0 && (of.Heads%m.From != 0 || of.Heads%m.To != 0) {
		notes = append(notes, fmt.Sprintf("engines refuse it: the %d attention heads of %s do not divide among prefill tp %d "+
			"and decode tp %d", of.Heads, of.Name, m.From, m.To))
	}
	return notes
}

// Notes are what users must know of figures of the model, a sentence each.
func (m *Model) Notes() []string {
	if m.Draft == 0 {
		return nil
	}
	return []string{fmt.Sprintf("draft layers (MTP) are not counted: the model has %d", m.Draft)}
}

// wholeWords name what every rank holds whole, all of it or in part.
var wholeWords = map[Kind]string{
	MLA: "the whole latent", Indexer: "all index keys", IndexKey: "all index keys",
	Compressed: "all compressed entries",
	Window:     "all latents of the window",
	Mamba2:     "the shared part of the states",
	CCA:        "the shared part of the states",
	Ring:       "the rings",
}
