package disagg

import (
	"io"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/judge"
)

// A defect in the judging of a case fails that case of a run.
func TestDefectInARun(t *testing.T) {
	log, err := openRunLog(t.TempDir(), time.Now(), io.Discard)
	must.Do(t, err)
	defer log.Close()
	r, o := &session{RunCmd: &RunCmd{}, log: log}, &outcome{}
	task := &batch.Task{Name: "a"} // without a configuration
	r.alone(task, o, func() { r.judge(task, o) })
	if o.Verdict == nil || o.State != judge.Failed || !strings.HasPrefix(o.Reasons[0], "panic: ") {
		t.Errorf("%+v", o.Verdict)
	}
}
