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
	"perigee/tools/disagg/verdict"
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
	r, d := &session{RunCmd: &RunCmd{}, log: log}, &done{}
	task := &batch.Task{Name: "a"} // without a configuration
	r.alone(task, d, func() { r.judge(task, d) })
	if d.Verdict == nil || d.State != verdict.Failed || !strings.HasPrefix(d.Reasons[0], "panic: ") {
		t.Errorf("%+v", d.Verdict)
	}
}
