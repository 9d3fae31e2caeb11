package judge

import (
	"strings"
	"testing"
)

// The figures of a benchmark count whatever becomes of the evaluation behind it.
func TestSound(t *testing.T) {
	for reason, want := range map[string]bool{
		"accuracy: gsm8k is 80, wanted 91": true, "EVALUATE on node1 has ended with code 1: no model": true,
		"CLIENT on node1 has ended with code 1: no model": false, "level 4 lacks SERVER_MEDIAN_TTFT": false,
		"Slurm has ended the job as CANCELLED, during EVALUATE": false,
	} {
		if (&Verdict{Reasons: []string{reason}}).Sound() != want {
			t.Errorf("%s: want %v", reason, want)
		}
	}
}

// What Slurm did to a job stands in front, and parts that it has ended so are not named as the cause.
func TestEnd(t *testing.T) {
	part := func(code int) *Death { return &Death{Part: "SERVER_0", Node: "node2", Code: code} }
	script := func(code int) *Death { return &Death{Part: "EVALUATE", Code: code} }
	const server = "SERVER_0 on node2 has ended with code"
	for _, c := range []struct {
		end     End
		marked  bool
		death   *Death
		reasons string // their beginnings
	}{
		{End{State: "COMPLETED"}, true, nil, ""},
		{End{State: "COMPLETED", Preempted: true}, true, nil, ""}, // it has come to its end in time
		{End{State: "TIMEOUT"}, true, nil, ""},
		{End{State: "FAILED"}, false, part(143), server},
		{End{State: "TIMEOUT"}, false, nil, "Slurm has ended the job as TIMEOUT: its time limit"},
		{End{State: "TIMEOUT"}, false, part(143), "Slurm has ended the job as TIMEOUT: its time limit"},
		{End{State: "TIMEOUT"}, false, part(1), "Slurm has ended the job as TIMEOUT; " + server},
		{End{State: "NODE_FAIL"}, false, part(137), "Slurm has ended the job as NODE_FAIL: a node"},
		{End{State: "OUT_OF_MEMORY"}, false, part(143), "Slurm has ended the job as OUT_OF_MEMORY: it needed"},
		{End{State: "OUT_OF_MEMORY"}, false, part(137), "Slurm has ended the job as OUT_OF_MEMORY; " + server},
		{End{State: "PREEMPTED", Preempted: true}, false, part(143), "Slurm has ended the job as PREEMPTED: another job"},
		{End{State: "FAILED", Preempted: true}, false, part(143), "Slurm has preempted the job: another job"},
		{End{State: "COMPLETED", Preempted: true}, true, part(143), "Slurm has preempted the job"},
		{End{State: "FAILED", Preempted: true}, false, part(1), "Slurm has preempted the job; " + server},
		{End{State: "CANCELLED"}, true, nil, ""}, // by itself, in the end
		{End{State: "CANCELLED"}, false, nil, "Slurm has ended the job as CANCELLED, before its end mark"},
		{End{State: "CANCELLED"}, false, script(143), "Slurm has ended the job as CANCELLED, during EVALUATE"},
		{End{State: "CANCELLED"}, false, script(137), "Slurm has ended the job as CANCELLED, during EVALUATE"},
		{End{State: "CANCELLED"}, false, script(1), "Slurm has ended the job as CANCELLED, during EVALUATE; EVALUATE has ended with code 1"},
		{End{State: "CANCELLED"}, false, part(1), "Slurm has ended the job as CANCELLED, before its end mark; " + server},
		{End{State: "CANCELLED"}, false, part(139), "Slurm has ended the job as CANCELLED, before its end mark; " + server},
		{End{State: "CANCELLED", Cancelled: true}, false, part(143), server},
		{End{State: "CANCELLED", Cancelled: true}, false, script(137), "EVALUATE has ended with code 137"},
		{End{State: "BOOT_FAIL"}, false, nil, "Slurm has ended the job as BOOT_FAIL: "}, {End{State: "REVOKED"}, false, nil, "Slurm has ended the job as REVOKED, without"},
	} {
		v := &Verdict{State: Passed}
		v.end(&Evidence{Marked: c.marked, Death: c.death}, c.end)
		wants := strings.Split(c.reasons, "; ")
		if c.reasons == "" {
			wants = nil
		}
		same := len(v.Reasons) == len(wants) && (v.Death != nil) == strings.Contains(c.reasons, "has ended with code")
		for i := range min(len(v.Reasons), len(wants)) {
			same = same && strings.HasPrefix(v.Reasons[i], wants[i])
		}
		if !same || (v.State == Failed) != (wants != nil) {
			t.Errorf("%+v: %s, %q, %+v, want %q", c, v.State, v.Reasons, v.Death, wants)
		}
	}
}

// What the run that has watched the job says stands in front of what it has found.
func TestEndOfWatchedJobs(t *testing.T) {
	died := &Death{Part: "SERVER_0", Code: 3}
	const dead, forgotten = "SERVER_0 has ended with code 3", "Slurm has forgotten job 7"
	for _, c := range []struct {
		end      End
		evidence Evidence
		reasons  string // their beginnings
		warning  string
	}{
		{End{State: "CANCELLED", Late: "too late"}, Evidence{}, "too late", ""},
		{End{State: "CANCELLED", Late: "too late"}, Evidence{Death: died}, "too late; " + dead, ""},
		{End{State: "CANCELLED", Stopped: "x"}, Evidence{Death: died}, "x", ""},
		{End{State: "CANCELLED", Cancelled: true, Death: died}, Evidence{Death: &Death{Part: "CLIENT", Code: 143}}, dead, ""},
		{End{Job: "7", Lost: true}, Evidence{}, "", forgotten},
		{End{Job: "7", Lost: true, State: "COMPLETED"}, Evidence{}, "", ""},
		{End{Job: "7", Lost: true, State: "RUNNING"}, Evidence{}, forgotten + ", and it has not written its end mark", ""},
		{End{Job: "7", Lost: true, State: "RUNNING"}, Evidence{Marked: true}, "", ""},
		{End{Job: "7", Lost: true, State: "RUNNING"}, Evidence{Death: died}, dead, ""},
		{End{State: "COMPLETED", Suspended: true}, Evidence{}, "", "Slurm has suspended the job"},
		{End{State: "COMPLETED"}, Evidence{Left: []string{"a task"}}, "", "a task"},
	} {
		v := &Verdict{State: Passed}
		v.end(&c.evidence, c.end)
		reasons, warnings := strings.Join(v.Reasons, "; "), strings.Join(v.Warnings, "; ")
		if !strings.HasPrefix(reasons, c.reasons) || (v.State == Failed) != (c.reasons != "") || !strings.HasPrefix(warnings, c.warning) ||
			(warnings == "") != (c.warning == "") {
			t.Errorf("%+v, %+v: %s, %q, %q", c.end, c.evidence, v.State, reasons, warnings)
		}
	}
}
