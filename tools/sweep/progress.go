package sweep

import (
	"io"
	"os"
	"sync"

	"github.com/cheggaaa/pb/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	to   io.Writer
	once sync.Once
	bar  *pb.ProgressBar
}

// fewFiles are read before anybody could look at a bar.
const fewFiles = 200

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{to: w}
}

// set is called from many goroutines.
func (p *progress) set(_, all int) {
	if p.to == nil || all < fewFiles {
		return
	}
	p.once.Do(func() {
		p.bar = pb.New(all).SetWriter(p.to).SetTemplateString(`reading reports {{bar . }} {{counters . }}`).
			Set(pb.CleanOnFinish, true).Start()
		p.bar.Write() // at once, and not only at the first tick
	})
	p.bar.Increment()
}

func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Finish()
	}
}
