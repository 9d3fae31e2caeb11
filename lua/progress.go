package lua

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
)

// progress(total, label) makes a bar with add(n) and finish().
// It is seen at rank 0 only: on a terminal as a bar, elsewhere as a line from time to time.
func (r *resultModule) progress(L *glua.LState) (int, error) {
	total, err := integerArg(L, 1, 0)
	if err != nil {
		return 0, err
	}
	label := L.OptString(2, "")
	if err := checkName("result.progress: the label", label); err != nil {
		return 0, err
	}
	if len(r.bars) >= maxBars {
		return 0, fault.New(fault.Script, "result.progress: %d bars are open, want at most %d", len(r.bars)+1, maxBars).
			WithHint("bar:finish() ends one")
	}
	bar := &progressBar{total: total, label: plaintext.Escape(label), started: time.Now()}
	switch {
	case r.env.Progress != nil:
		bar.shown = pb.New(total).SetWriter(r.env.Progress).SetTemplateString(`{{string . "label"}} {{bar . }} {{counters . }} {{rtime . }}`).
			Set("label", bar.label).Set(pb.CleanOnFinish, true).Start()
	case r.env.ProgressLines != nil:
		bar.ended = make(chan struct{})
		go bar.write(r.env.ProgressLines, time.Tick(progressEvery), bar.ended)
	}
	r.bars = append(r.bars, bar)
	L.Push(newUserData(L, barTypeName, bar))
	return 1, nil
}

// maxBars bounds the bars that are open at a time: each draws or writes by itself. perigee's own scenarios open one.
const maxBars = 1000

// progressEvery is the time between two lines of progress.
const progressEvery = 10 * time.Second

// progressBar is what result.progress returns.
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

// addBytes is add for a bar that counts MiB. The lanes of a rank call it side by side.
func (b *progressBar) addBytes(n int64) {
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

// barMethods are the functions of a progress bar.
func (r *resultModule) barMethods() map[string]function {
	return map[string]function{
		"add": func(L *glua.LState) (int, error) {
			b, err := barOf(L)
			if err != nil {
				return 0, err
			}
			n, err := optionalInteger(L, 2, 1, 0)
			if err != nil {
				return 0, err
			}
			b.add(n)
			return 0, nil
		},
		"finish": func(L *glua.LState) (int, error) {
			b, err := barOf(L)
			if err != nil {
				return 0, err
			}
			b.finish()
			r.bars = slices.DeleteFunc(r.bars, func(o *progressBar) bool { return o == b })
			return 0, nil
		},
	}
}

func barOf(L *glua.LState) (*progressBar, error) {
	return userData[*progressBar](L, 1, "a progress bar")
}

func (r *resultModule) openBarType() {
	methods := r.functions(r.barMethods())
	r.newType(barTypeName, map[string]function{"__index": func(L *glua.LState) (int, error) {
		return pushMember(L, methods, "progress bar", L.Get(2).String())
	}})
}

// bar reads a progress bar, nil where it is missing.
func (f *fields) bar(name string) *progressBar {
	v := f.get(name)
	if ud, ok := v.(*glua.LUserData); ok {
		if b, ok := ud.Value.(*progressBar); ok {
			return b
		}
	}
	if v != glua.LNil {
		f.fail(name, "what result.progress returns", v)
	}
	return nil
}
