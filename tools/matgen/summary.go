package matgen

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/size"
)

// writeSummary says what was planned and what has become of it.
func (w *Workload) writeSummary(out io.Writer, written string) error {
	b := bufio.NewWriter(plaintext.Writer(out)) // the model's name may be anything
	line := func(format string, args ...any) { fmt.Fprintf(b, "# "+format+"\n", args...) }
	line("matgen generate: %d matrices of %d ranks, %s", len(w.Patterns), w.World(), written)
	line("model %s: %s", w.Model.Name, w.Model.text())
	line("prefill: ranks %d to %d, %s (%s)", 0, w.Prefill.Ranks-1, cli.Count(w.Prefill.Workers(), "worker"),
		w.prefill)
	line("decode: ranks %d to %d, %s (%s)", w.Decode.First, w.World()-1, cli.Count(w.Decode.Workers(), "worker"),
		w.decode)
	if text := w.Model.moves(); text != "" {
		line("moves: %s", text)
	}
	if w.Trace != nil {
		line("trace: %s", w.Trace)
	}
	if len(w.Patterns) > 0 {
		w.summarizePatterns(line)
	}
	for _, text := range w.Notes {
		line("note: %s", text)
	}
	for _, text := range w.Warnings {
		line("warning: %s", text)
	}
	return b.Flush()
}

// summarizePatterns prints what a user wants to know before the files are played: how many bytes, in the largest
// matrix and on a rank, and how long the pauses take.
func (w *Workload) summarizePatterns(line func(format string, args ...any)) {
	largest := 0
	least, most := w.Requests[0].Tokens, w.Requests[0].Tokens
	for k, p := range w.Patterns {
		if p.Bytes > w.Patterns[largest].Bytes {
			largest = k
		}
	}
	var tokens int64
	for _, r := range w.Requests {
		least, most = min(least, r.Tokens), max(most, r.Tokens)
		tokens += r.Tokens
	}
	line("requests: %d of %d to %d tokens, mean %.1f", len(w.Requests), least, most,
		float64(tokens)/float64(len(w.Requests)))
	line("bytes: %s in all, %s in the largest matrix (%s)", size.Exact(w.Bytes()),
		size.Exact(w.Patterns[largest].Bytes), fileName(largest))
	send, receive := w.memory(w.Patterns[largest])
	line("memory per rank: %s to send (prefill), %s to receive (decode)", size.Exact(send), size.Exact(receive))
	line("sleep: %s s on the busiest worker", seconds(w.longestSleep()))
	if bytes := w.fileBytes(); bytes >= largeFiles {
		line("files: at least %s", size.Exact(bytes))
	}
}

// text says in words what the model keeps.
func (m Model) text() string {
	text := fmt.Sprintf("%s of KV cache per token, %s", size.Exact(m.BytesPerToken), m.cache.Precision())
	if m.WindowBytes > 0 {
		text += fmt.Sprintf("; %s that layers with a window keep of a long request", size.Exact(m.WindowBytes))
	}
	if m.StateBytes > 0 {
		text += fmt.Sprintf("; states of %s, %s (%s)", size.Exact(m.StateBytes), m.StateDType, m.cache.StateBy)
	}
	return text
}

// moves says in words in which pages an engine moves it, and who receives copies.
func (m Model) moves() string {
	text := m.Copies
	if m.Block > 0 {
		text = strings.TrimSuffix(fmt.Sprintf("as %v, %s, %s", m.cache.Serving, m.cache.BlockText(), text), ", ")
	}
	return text
}

// largeFiles is from when on the user is told what the files take.
const largeFiles = 100e6

// seconds writes three decimals, or three digits where these would be zeros.
func seconds(s float64) string {
	if s >= 1 {
		return fmt.Sprintf("%.3f", s)
	}
	return fmt.Sprintf("%.3g", s)
}

// memory returns the largest send and receive buffers that a pattern needs.
func (w *Workload) memory(p BatchPattern) (send, receive int64) {
	sums := make([]int64, w.World())
	for _, c := range w.Cells(p) {
		sums[c.From] += c.Bytes
		sums[c.To] += c.Bytes
	}
	for rank, sum := range sums {
		if rank < w.Decode.First {
			send = max(send, sum)
		} else {
			receive = max(receive, sum)
		}
	}
	return send, receive
}

// longestSleep is the sum of the sleeps of the ranks that sleep longest: only initiators sleep.
func (w *Workload) longestSleep() float64 {
	longest, _ := w.busiest()
	return longest
}

// busiest returns the sleeps of the ranks of prefill that sleep longest, and the most that one of them sends.
func (w *Workload) busiest() (sleep float64, bytes int64) {
	type lane struct{ worker, group, stage int }
	sleeps, sent := map[lane]float64{}, map[lane]int64{}
	var longest lane
	for _, p := range w.Patterns {
		at := lane{p.PrefillWorker, p.prefillGroup, p.part.stage}
		sleeps[at] += p.SleepSec
		sent[at] += p.Bytes / int64(w.prefill.attention()*w.prefill.cp)
		if sleeps[at] > sleeps[longest] {
			longest = at
		}
	}
	return sleeps[longest], sent[longest]
}

// fileBytes estimates the space of the matrices on the disk if no number were longer than
// one character. All have as many messages.
func (w *Workload) fileBytes() int64 {
	ranks := uint64(w.World())
	each := 2 * ranks * ranks
	if w.sparse() {
		each = uint64(len("0 1 5\n") * len(w.Cells(w.Patterns[0])))
	}
	high, low := bits.Mul64(each, uint64(len(w.Patterns)))
	if high != 0 || low > 1<<62 {
		return 1 << 62
	}
	return int64(low)
}
