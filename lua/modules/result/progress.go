package result

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cheggaaa/pb/v3"
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/plaintext"
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
			b.add(n)
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

// progress(total, label) makes a bar with add(n) and finish().
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
	bar := &progressBar{total: total, label: plaintext.Escape(label), started: time.Now()}
	switch {
	case r.Env().Progress != nil:
		bar.shown = pb.New(total).SetWriter(r.Env().Progress).SetTemplateString(`{{string . "label"}} {{bar . }} {{counters . }} {{rtime . }}`).
			Set("label", bar.label).Set(pb.CleanOnFinish, true).Start()
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
	total   int
	label   string
	started time.Time
	shown   *pb.ProgressBar // on a terminal
	ended   chan struct{}   // closed when lines end, nil where none are written

	mu    sync.Mutex
	done  int
	bytes int64 // of the unit that is not full yet
}

func (b *progressBar) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(n)
}

func (b *progressBar) advance(n int) {
	b.done += n
	if b.shown != nil {
		b.shown.Add(n)
	}
}

// AddBytes is add for a bar that counts MiB. The lanes of a rank call it side by side.
func (b *progressBar) AddBytes(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += n
	b.advance(int(b.bytes >> 20))
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
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf("perigee: %d of %d", b.done, b.total)
	if b.label != "" {
		text += " " + b.label
	}
	if b.total > 0 {
		text += fmt.Sprintf(" (%d %%)", 100*int64(b.done)/int64(b.total))
	}
	text += fmt.Sprintf(" after %.0f s", after.Seconds())
	if b.done > 0 && b.done < b.total {
		text += fmt.Sprintf(", about %.0f s left", after.Seconds()*float64(b.total-b.done)/float64(b.done))
	}
	return text
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
