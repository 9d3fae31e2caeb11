package disagg

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/judge"
)

// A defect ends the command with an error that names the place.
func TestDefect(t *testing.T) {
	err := guarded(cli.Streams{Out: io.Discard, Err: io.Discard}, func(cli.Streams) error {
		var none []int
		return fmt.Errorf("%d", none[0])
	})
	if fault.KindOf(err) != fault.Internal || fault.HintOf(err) == "" || !regexp.MustCompile(`^panic: .*index out of range .*, at defect_test.go:\d+$`).MatchString(err.Error()) {
		t.Error(err)
	}
}

// In a run it fails its own case.
func TestDefectInARun(t *testing.T) {
	log, err := openRunLog(t.TempDir(), time.Now(), io.Discard)
	must(t, err)
	defer log.Close()
	r, o := &session{RunCmd: &RunCmd{}, log: log}, &outcome{}
	task := &batch.Task{Name: "a"} // without a configuration
	r.alone(task, o, func() { r.judge(task, o) })
	if o.Verdict == nil || o.State != judge.Failed || !strings.HasPrefix(o.Reasons[0], "panic: ") {
		t.Errorf("%+v", o.Verdict)
	}
}
