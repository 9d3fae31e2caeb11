package disagg

import (
	"io"
	"strings"
	"testing"
	"time"

	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/verdict"
)

// A defect fails its own case, with a reason that names the place.
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
