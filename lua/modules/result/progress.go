package result

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cheggaaa/pb/v3"
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// bars makes progress bars.
type bars struct {
	modules.Host
	open []*progressBar
}

const barType = "perigee.progress"

// class describes progress bars to scripts.
func (r *bars) class() vm.Class[*progressBar] {
	const what = "a progress bar"
	return vm.Class[*progressBar]{Type: barType, Name: "progress bar", What: what, Methods: map[string]vm.Function{
		"add": vm.On(what, func(L *glua.LState, b *progressBar) (int, error) {
			n, err := vm.OptionalInteger(L, 2, 1, 0)
			if err != nil {
				return 0, err
			}
			b.Add(n, float64(L.OptNumber(3, 0)))
			return 0, nil
		}),
		"expect": vm.On(what, func(L *glua.LState, b *progressBar) (int, error) {
			total, err := vm.IntegerArg(L, 2, 0)
			if err != nil {
				return 0, err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.total, b.known = total, float64(L.OptNumber(3, 0))
			return 0, nil
		}),
		"finish": vm.On(what, func(L *glua.LState, b *progressBar) (int, error) {
			b.finish()
			r.open = slices.DeleteFunc(r.open, func(o *progressBar) bool { return o == b })
			return 0, nil
		}),
	}}
}

// clear makes room for a line on a terminal that shows a progress bar, which comes back by itself.
func (r *bars) clear() {
	if terminal := r.Env().Progress; terminal != nil && len(r.open) > 0 {
		io.WriteString(terminal, "\r\x1b[K")
	}
}

// shownAs is what follows a bar on a terminal. How far the bar is comes with the next drawing.
func shownAs(state *pb.State, _ ...string) string {
	b := state.Get(barType).(*progressBar)
	counters, share, left := b.state(time.Since(b.started))
	state.SetCurrent(int64(max(0, share) * terminalSteps))
	return strings.Replace(counters, " of ", " / ", 1) + left
}

// terminalSteps is how finely a bar on a terminal is cut.
const terminalSteps = 1000

var registerOnce = sync.OnceFunc(func() { pb.RegisterElement("state", pb.ElementFunc(shownAs), false) })

// progress(total, label, seconds) makes a bar with add(n, seconds), expect(total, seconds) and finish().
// It is seen at rank 0 only: on a terminal as a bar, elsewhere as a line from time to time.
func (r *bars) progress(L *glua.LState) (int, error) {
	total, err := vm.IntegerArg(L, 1, 0)
	if err != nil {
		return 0, err
	}
	label := L.OptString(2, "")
	if err := modules.CheckName("result.progress: the label", label); err != nil {
		return 0, err
	}
	if len(r.open) >= maxBars {
		return 0, fault.New(fault.Script, "result.progress: %d bars are open, want at most %d", len(r.open)+1, maxBars).
			WithHint("bar:finish() ends one")
	}
	bar := &progressBar{
		total: total, label: plaintext.Escape(label), known: float64(L.OptNumber(3, 0)), started: time.Now(),
	}
	switch {
	case r.Env().Progress != nil:
		registerOnce()
		bar.shown = pb.New(terminalSteps).SetWriter(r.Env().Progress).SetTemplateString(`{{string . "label"}} {{bar . }} {{state . }}`).
			Set("label", bar.label).Set(barType, bar).Set(pb.CleanOnFinish, true).Start()
	case r.Env().ProgressLines != nil:
		bar.ended = make(chan struct{})
		go bar.write(r.Env().ProgressLines, time.Tick(progressEvery), bar.ended)
	}
	r.open = append(r.open, bar)
	return vm.Return(L, vm.NewUserData(L, barType, bar))
}

// maxBars bounds the bars that are open at a time: each draws or writes by itself. perigee's own scenarios open one.
const maxBars = 1000

// progressEvery is the time between two lines of progress.
const progressEvery = 10 * time.Second

// progressBar is a bar of result.progress.
type progressBar struct {
	label   string
	started time.Time
	shown   *pb.ProgressBar // on a terminal
	ended   chan struct{}   // closed when lines end, nil where none are written

	mu    sync.Mutex
	total int
	// known is how many seconds of the whole are known beforehand, such as pauses; with total 0 those of the whole.
	known float64
	done  int
	past  float64       // seconds of known that are over
	at    time.Duration // when that was said last, since started
	bytes int64         // of the unit that is not full yet
}

// Add counts n units that are done, and seconds of known that are over with them.
func (b *progressBar) Add(n int, seconds float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	b.past += seconds
	b.at = time.Since(b.started)
}

// AddBytes is Add for a bar that counts MiB. The lanes of a rank call it side by side.
func (b *progressBar) AddBytes(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += n
	b.done += int(b.bytes >> 20)
	b.bytes &= 1<<20 - 1
}

// write prints a line at each tick until the bar ends.
func (b *progressBar) write(w io.Writer, tick <-chan time.Time, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-tick:
			fmt.Fprintln(w, b.line(time.Since(b.started)))
		}
	}
}

// line is the progress after some time: perigee: 12 of 48 MiB (25 %) after 10 s, about 30 s left.
func (b *progressBar) line(after time.Duration) string {
	counters, share, left := b.state(after)
	text := "perigee: " + counters
	if b.label != "" {
		text += " " + b.label
	}
	percent := int(share*100 + 1e-9)
	switch {
	case share >= 0 && b.byTime(): // which is another share than that of what is counted
		text += fmt.Sprintf("; %d %% of the time", percent)
	case share >= 0:
		text += fmt.Sprintf(" (%d %%)", percent)
	}
	text += fmt.Sprintf(" after %.0f s", after.Seconds())
	if left != "" {
		text += "," + left
	}
	return text
}

// byTime says whether the share is that of the time.
func (b *progressBar) byTime() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known > 0
}

// state is how far the bar is after some time: what is done of the total, the share of the whole, 0 to 1 or -1 where
// that is not known, and what is left.
func (b *progressBar) state(after time.Duration) (counters string, share float64, left string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	counters, share = fmt.Sprint(b.done), -1
	if b.done <= b.total || b.known == 0 {
		counters = fmt.Sprintf("%d of %d", b.done, b.total)
	}
	if b.known == 0 && b.total > 0 {
		share = float64(b.done) / float64(b.total)
	}
	if b.known == 0 && (b.done == 0 || b.done >= b.total) {
		return counters, share, ""
	}
	seconds := b.left(after.Seconds())
	if b.known > 0 {
		share = min(after.Seconds()/max(after.Seconds()+seconds, 1e-9), 0.99) // only finish says that all is over
	}
	return counters, share, fmt.Sprintf(" about %.0f s left", seconds)
}

// left is how many seconds are to come: those of known that are not over, and for each unit what one has taken besides,
// on average. From one add to the next, time goes on where it is known.
func (b *progressBar) left(now float64) float64 {
	if b.total == 0 {
		return max(0, b.known-now)
	}
	at := b.at.Seconds()
	if b.known == 0 {
		at = now
	}
	each := 0.0
	if b.done > 0 {
		each = max(0, at-b.past) / float64(b.done)
	}
	return max(0, b.known-b.past+float64(max(0, b.total-b.done))*each-(now-at))
}

// finish takes the bar off the terminal, or ends its lines, once.
func (b *progressBar) finish() {
	if b.shown != nil {
		b.shown.Finish()
		b.shown = nil
	}
	if b.ended != nil {
		close(b.ended)
		b.ended = nil
	}
}
