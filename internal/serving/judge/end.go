package judge

import (
	"cmp"
	"fmt"
)

// End describes the end of a job, as far as Slurm and the run that has watched it know.
type End struct {
	Job       string // its id
	State     string // in Slurm's words; "" if it has not said
	Preempted bool   // Slurm has ended it, or meant to, for another job
	Suspended bool   // Slurm has stopped it for a while
	Lost      bool   // Slurm has forgotten how it has ended
	Cancelled bool   // the run has cancelled it
	Death     *Death // for which the run has cancelled it
	Late      string // says that the run has cancelled it for its time
	Stopped   string // why a run before has cancelled it
}

// causes explains the states in which Slurm ends jobs by itself.
var causes = map[string]string{
	"TIMEOUT":       "its time limit (slurm.job_time) was over",
	"DEADLINE":      "its deadline was over",
	"PREEMPTED":     "another job needed its nodes",
	"NODE_FAIL":     "a node of it has failed",
	"BOOT_FAIL":     "a node of it has not booted",
	"OUT_OF_MEMORY": "it needed more memory than it may have",
}

// end fails a case of which a part has died, or whose job has ended before its end mark. It passes none. Where Slurm
// ends a job, it ends the parts by SIGTERM and SIGKILL: they are not the cause then.
func (v *Verdict) end(e *Evidence, end End) {
	if end.Suspended {
		v.Warnings = append(v.Warnings, "Slurm has suspended the job for a while: its figures may hold the pause")
	}
	v.Warnings = append(v.Warnings, e.Left...)
	if end.Stopped != "" {
		v.Fail("%s", end.Stopped)
		return
	}
	death := cmp.Or(end.Death, e.Death)
	forgotten := end.Lost && !e.Marked && death == nil
	cause := ""
	if end.Late == "" && !forgotten {
		cause = end.cause(death, e.Marked)
	}
	if death != nil && (cause == "" || !death.BySlurm() || end.State == "OUT_OF_MEMORY" && death.Killed()) {
		v.Fail("%s: %s", death.Words(), death.Line)
		v.Death = death
	}
	if cause != "" {
		v.Fail("%s", cause)
	}
	switch {
	case end.Late != "":
		v.Fail("%s", end.Late)
	case forgotten && end.State == "": // nothing was ever seen of it but its logs
		v.Warnings = append(v.Warnings, "Slurm has forgotten job "+end.Job+": how it has ended is not known")
	case forgotten && end.State != "COMPLETED":
		v.Fail("Slurm has forgotten job %s, and it has not written its end mark", end.Job)
	}
}

// cause says why Slurm has ended a job, "" where it has not, or the death of a part says it.
func (end End) cause(death *Death, marked bool) string {
	switch state := end.State; {
	case death == nil && (marked || state == "COMPLETED"), state == "" && !end.Preempted:
		return ""
	case causes[state] != "" && !marked:
		return fmt.Sprintf("Slurm has ended the job as %s: %s", state, causes[state])
	case end.Preempted:
		return "Slurm has preempted the job: " + causes["PREEMPTED"]
	case state == "CANCELLED" && !end.Cancelled && !marked && death != nil && death.OfScript():
		return "Slurm has ended the job as CANCELLED, during " + death.Part
	case state == "CANCELLED" && !end.Cancelled && !marked:
		return "Slurm has ended the job as CANCELLED, before its end mark"
	case death != nil:
		return ""
	default:
		return fmt.Sprintf("Slurm has ended the job as %s, without its end mark", state)
	}
}
