package disagg

import (
	"io"
	"math"
	"strings"
	"testing"

	"perigee/tools/disagg/accuracy"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/config"
	"perigee/tools/disagg/verdict"
)

// The figures of a benchmark count whatever becomes of the evaluation behind it.
func TestGoodBenchmark(t *testing.T) {
	for reason, want := range map[string]bool{
		"accuracy: gsm8k is 80, wanted 91": true, "EVALUATE on node1 has ended with code 1: no model": true,
		"CLIENT on node1 has ended with code 1: no model": false, "level 4 lacks SERVER_MEDIAN_TTFT": false,
		"Slurm has ended the job as CANCELLED, during EVALUATE": false,
	} {
		if good(&verdict.Verdict{Reasons: []string{reason}}) != want {
			t.Errorf("%s: want %v", reason, want)
		}
	}
}

// What Slurm did to a job stands in front, and parts that it has ended so are not named as the cause.
func TestJudgeEnd(t *testing.T) {
	part := func(code int) *batch.Death { return &batch.Death{Part: "SERVER_0", Node: "node2", Code: code} }
	script := func(code int) *batch.Death { return &batch.Death{Part: "EVALUATE", Code: code} }
	const server = "SERVER_0 on node2 has ended with code"
	for _, c := range []struct {
		how     ended
		reasons string // their beginnings
	}{
		{ended{state: "COMPLETED", marked: true}, ""},
		{ended{state: "COMPLETED", marked: true, preempted: true}, ""}, // it has come to its end in time
		{ended{state: "TIMEOUT", marked: true}, ""},
		{ended{state: "FAILED", death: part(143)}, server},
		{ended{state: "TIMEOUT"}, "Slurm has ended the job as TIMEOUT: its time limit"},
		{ended{state: "TIMEOUT", death: part(143)}, "Slurm has ended the job as TIMEOUT: its time limit"},
		{ended{state: "TIMEOUT", death: part(1)}, "Slurm has ended the job as TIMEOUT; " + server},
		{ended{state: "NODE_FAIL", death: part(137)}, "Slurm has ended the job as NODE_FAIL: a node"},
		{ended{state: "OUT_OF_MEMORY", death: part(143)}, "Slurm has ended the job as OUT_OF_MEMORY: it needed"},
		{ended{state: "OUT_OF_MEMORY", death: part(137)}, "Slurm has ended the job as OUT_OF_MEMORY; " + server},
		{ended{state: "PREEMPTED", preempted: true, death: part(143)}, "Slurm has ended the job as PREEMPTED: another job"},
		{ended{state: "FAILED", preempted: true, death: part(143)}, "Slurm has preempted the job: another job"},
		{ended{state: "COMPLETED", marked: true, preempted: true, death: part(143)}, "Slurm has preempted the job"},
		{ended{state: "FAILED", preempted: true, death: part(1)}, "Slurm has preempted the job; " + server},
		{ended{state: "CANCELLED", marked: true}, ""}, // by itself, in the end
		{ended{state: "CANCELLED"}, "Slurm has ended the job as CANCELLED, before its end mark"},
		{ended{state: "CANCELLED", death: script(143)}, "Slurm has ended the job as CANCELLED, during EVALUATE"},
		{ended{state: "CANCELLED", death: script(137)}, "Slurm has ended the job as CANCELLED, during EVALUATE"},
		{ended{state: "CANCELLED", death: script(1)}, "Slurm has ended the job as CANCELLED, during EVALUATE; EVALUATE has ended with code 1"},
		{ended{state: "CANCELLED", death: part(1)}, "Slurm has ended the job as CANCELLED, before its end mark; " + server},
		{ended{state: "CANCELLED", death: part(139)}, "Slurm has ended the job as CANCELLED, before its end mark; " + server},
		{ended{state: "CANCELLED", stopped: true, death: part(143)}, server},
		{ended{state: "CANCELLED", stopped: true, death: script(137)}, "EVALUATE has ended with code 137"},
		{ended{state: "BOOT_FAIL"}, "Slurm has ended the job as BOOT_FAIL: "}, {ended{state: "REVOKED"}, "Slurm has ended the job as REVOKED, without"},
	} {
		d := &done{Verdict: &verdict.Verdict{State: verdict.Passed}}
		d.judgeEnd("a", c.how)
		wants := strings.Split(c.reasons, "; ")
		if c.reasons == "" {
			wants = nil
		}
		same := len(d.Reasons) == len(wants) && (d.diag != "") == strings.Contains(c.reasons, "has ended with code")
		for i := range min(len(d.Reasons), len(wants)) {
			same = same && strings.HasPrefix(d.Reasons[i], wants[i])
		}
		if !same || (d.State == verdict.Failed) != (wants != nil) {
			t.Errorf("%+v: %s, %q, %q, want %q", c.how, d.State, d.Reasons, d.diag, wants)
		}
	}
}

// Figures that JSON cannot hold fail their case, and end no run.
func TestFiguresThatJSONLacks(t *testing.T) {
	dir := t.TempDir()
	task := &batch.Task{Config: &config.Config{Ident: config.Ident{Type: "disagg", Category: "accuracy", Stem: "a"}}, Dir: dir}
	bad := &verdict.Verdict{State: verdict.Passed, Accuracy: []accuracy.Score{{Judgement: &accuracy.Judgement{Threshold: math.NaN()}}}}
	d := &done{Verdict: bad, dir: dir}
	r := &session{RunCmd: &RunCmd{}, log: &runLog{screen: io.Discard}, dir: t.TempDir(), cases: map[*batch.Task]*done{task: d}}
	if err := r.write(task, d); err != nil {
		t.Fatal(err)
	}
	c, err := readCase(dir + batch.FailedSuffix)
	if err != nil || c.State != verdict.Failed || !strings.Contains(c.Reasons[0], "the verdict has a figure that is no finite number: ") {
		t.Errorf("%v: %+v", err, c)
	}
	if v := unwritable(printJSON(io.Discard, bad)); v == nil || v.State != verdict.Failed || unwritable(printJSON(io.Discard, v)) != nil {
		t.Errorf("%+v", v)
	}
}
