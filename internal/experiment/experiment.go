package experiment

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"perigee/internal/dashboard"
	"perigee/internal/figures/metric"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
	"perigee/internal/traffic/cpuwait"
	"perigee/internal/traffic/overlap"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/spmd"
)

// Config holds the parts with which an experiment begins.
type Config struct {
	World    *spmd.World
	Command  []string // the whole command line
	Title    string   // that the user gives the run
	Scenario result.Scenario
	Alike    []Choice          // of this rank; all ranks have the same in the same order, but for the values
	Job      result.Invocation // Engine is the choice of the user: auto, nixl or shm
	NixlLib  string            // NIXL's library; "" lets package engines search
	Seed     uint64
	// Metrics are the scenario's own, Thresholds what the run is judged by.
	Metrics    []result.MetricDef
	Thresholds []metric.Threshold
	LineRate   float64 // of the links between hosts in bytes per second, as the user says; 0: see FindLine
	File       string  // of the result, "" for none
	// Waits looks for how long threads of this process wait for a CPU; nil where ranks share a process.
	Waits      *cpuwait.Watch
	Dashboards []string  // values of --metrics, which [dashboard.Files] has checked
	Out        io.Writer // for the header's further lines, notes, the table of thresholds, the name of the result

	// Open opens the engine, GPUs lists the UUIDs of the GPUs that this process may use, Available is the memory of
	// this host in bytes that can be taken, Network reads the counters of its network. nil means: as OpenEngine does,
	// as CUDA says, and what the kernel says.
	Open      func() (engine nixl.Engine, note string, err error)
	GPUs      func() ([]string, error)
	Available func() (bytes int64, err error)
	Network   func() device.Counters
}

// Experiment is a run that goes on.
type Experiment struct {
	Config
	// Doc is the result at rank 0, nil elsewhere.
	Doc *result.Document

	watch      *metric.ThresholdWatch // at rank 0
	violated   []metric.Outcome       // at rank 0, after Finish
	aborting   error                  // see Aborting
	violatedAt time.Time              // since when it is there
	saved      checkpoints
	storing    atomic.Int32 // see Storing
	claim      claim        // on File, at rank 0
	journal    journal      // of what is not in File yet, at rank 0

	session    *session.Session
	engine     nixl.Engine // of the session
	agent      nixl.AgentConfig
	defaultMem *nixl.Mem
	notedGPUs  bool
	notedMixed bool                      // that initiators were in different phases
	netDevices string                    // of this rank, by --nic-map
	hostPages  string                    // what NoteHostMemory will say, at rank 0
	thin       thinning                  // which of the recorded runs are in the result
	early      map[int]play.Collected    // by plan: what SaveRuns has gathered and Collect has not returned, at rank 0
	timeline   overlap.Timeline          // of the runs in the result
	intervals  map[string]*spmd.Interval // of SaveRuns, by plans
	complete   bool                      // the result is written, as that of a run that went well
	kept       kept
	board      *dashboard.Board // at rank 0, nil for none and after the end
	looks      looks            // at the counters of this host's network
	tally      *tally           // of what the session's engine moves
}

// Begin begins an experiment at this rank.
func Begin(c Config) *Experiment {
	if c.Out != nil {
		c.Out = plaintext.Writer(c.Out) // titles, notes and the like are the scenario's words
	}
	e := &Experiment{Config: c, thin: newThinning(), early: map[int]play.Collected{},
		intervals: map[string]*spmd.Interval{}, tally: &tally{world: c.World}}
	e.beginLooks()
	if c.World.Rank() > 0 {
		return e
	}
	e.saved.busy.Lock()
	notes := crowded(c.World.Hosts())
	e.Doc = result.New(c.Command, c.Scenario, c.Seed, WorldOf(c.World), notes...)
	e.Doc.Title, e.Doc.Job = c.Title, &c.Job
	e.Doc.DeclareMetrics(c.Metrics)
	for _, t := range c.Thresholds {
		e.Doc.Thresholds = append(e.Doc.Thresholds, result.Threshold{Threshold: t.String(), From: t.From})
	}
	e.watch = metric.NewThresholdWatch(e.Doc, c.Thresholds)
	if e.File != "" {
		e.claim = newClaim(e.File)
		e.orphan()
	}
	if len(e.Dashboards) > 0 {
		e.board = dashboard.Start(e.Dashboards, e.Doc)
	}
	return e
}

// endBoard shows dashboards how the run has ended, and says what of that failed.
func (e *Experiment) endBoard(w io.Writer) {
	if e.board == nil {
		return
	}
	for _, text := range e.board.Finish(e.Doc) {
		io.WriteString(w, Comment("note: "+text))
	}
	e.board = nil
}

// Finish completes the result of a run that went well, judges it, and writes it. It has an effect at rank 0 only.
func (e *Experiment) Finish() error {
	if e.Doc == nil {
		return nil
	}
	defer e.store()()
	e.endSaving()
	e.Doc.World.Clocks = ClocksOf(e.World)
	if text := e.Doc.KeptText(); text != "" {
		e.Note(text)
	}
	e.Doc.Finish(nil)
	e.judge()
	defer e.endBoard(e.Out)
	if len(e.Thresholds) > 0 {
		if err := e.printThresholds(); err != nil {
			return err
		}
	}
	if e.File == "" {
		return nil
	}
	e.File = "" // later failures must not overwrite it, and a second attempt to write would fail as well
	if _, err := e.Doc.WriteClaimed(e.World.Context(), e.claim.settle); err != nil {
		fmt.Fprintln(e.Out, "# note:", e.journal.kept())
		return err
	}
	e.journal.end()
	e.complete = true
	if e.claim.path != e.claim.asked {
		fmt.Fprintf(e.Out, "# note: another has written %s since this job began\n", e.claim.asked)
	}
	fmt.Fprintln(e.Out, "# result:", e.claim.path)
	return nil
}

// Save writes what there is of a run that failed, at rank 0, and reports that to w. A run that has measured nothing
// does not replace the result of an earlier one, and leaves no file if it was refused. If the job failed when its
// result was complete, Save reports that; perigee's own launcher does it with [ExplainPartial].
func (e *Experiment) Save(failure error, w io.Writer) {
	e.endSaving()
	if e.complete && broken(failure) && e.World.Launcher() != "local" {
		reportComplete(w, e.claim.path)
	}
	if e.board != nil { // last, since a collector may not answer
		defer func() {
			e.Doc.Finish(FailureOf(failure))
			e.endBoard(w)
		}()
	}
	if e.Doc == nil || e.File == "" || !e.worthKeeping(failure) {
		return
	}
	if e.claim.seen != nil && !e.Doc.Measured() {
		fmt.Fprintf(w, "perigee: nothing was measured; %s stays as it was\n", e.claim.path)
		return
	}
	if replaceable(e.File) { // a pipe may never be read
		defer e.store()()
	}
	e.observeEarly()
	if text := e.Doc.KeptText(); text != "" {
		e.Doc.Notes = append(e.Doc.Notes, text)
	}
	e.Doc.Finish(FailureOf(failure))
	if replaceable(e.File) && e.Doc.Measured() {
		e.keep() // what it cannot take the file may
	}
	_, err := e.Doc.WriteClaimed(e.World.Context(), e.claim.settle)
	switch {
	case err == nil:
		e.journal.end()
		fmt.Fprintln(w, "perigee: partial result:", e.claim.path)
	case e.journal.Journal != nil && !e.journal.Empty():
		fmt.Fprintln(w, "perigee: partial result: its last part is lost:", err)
		if e.World.Launcher() != "local" { // which makes a result of the journal, in ExplainPartial
			fmt.Fprintln(w, "perigee: partial result:", e.journal.Path())
		}
	default:
		e.journal.end()
		fmt.Fprintln(w, "perigee: the partial result is lost:", err)
	}
}

// worthKeeping reports whether the result says more than the error message.
func (e *Experiment) worthKeeping(failure error) bool { return broken(failure) || e.Doc.Measured() }

// broken reports whether a job was ended from outside, whatever it did.
func broken(failure error) bool {
	switch fault.KindOf(failure) {
	case fault.RankLost, fault.Timeout, fault.Interrupt:
		return true
	}
	return false
}

// foldable is how many bytes of a journal are made a result while those who have started a job wait for its end.
const foldable = 8 << 20

// ExplainPartial makes a result of the journal that the dead rank 0 of a job has left, with the failure, and reports
// that to w. A large one stays as it is. A rank 0 that lived has done so itself. If the job failed when its result was
// complete, ExplainPartial reports that.
func ExplainPartial(path, job string, failure error, w io.Writer) {
	part, size := left(path, job)
	if of := written(path); of != nil && of.Job != nil && of.Job.ID == job {
		if part != "" {
			os.Remove(part)
		}
		if of.Status == result.Complete && broken(failure) {
			reportComplete(w, path)
		}
		return
	}
	if part == "" {
		return
	}
	err := result.FailPart(part, FailureOf(failure))
	if err == nil && size <= foldable {
		path, err = fold(path, part)
	}
	if err != nil {
		fmt.Fprintln(w, "perigee:", err)
	}
	if err != nil || size > foldable {
		path = part
	}
	fmt.Fprintln(w, "perigee: partial result:", path)
}

// fold makes a result of a journal, which it removes, and returns where it is.
func fold(path, part string) (string, error) {
	d, err := result.Read(part)
	if err != nil {
		return "", err
	}
	d.Notes = d.Notes[:len(d.Notes)-1] // that it was read from there
	finished := d.Finished
	d.Finish(d.Failure)
	d.Status, d.Finished = result.Partial, finished
	c := claim{asked: path, path: path, seen: regular(path), free: true}
	if c.seen != nil && c.seen.ModTime().After(d.Started) {
		c.seen = nil // of a job that began later, or ended earlier
	}
	ended, end := context.WithCancel(context.Background())
	end() // this process may be killed at any moment
	if _, err := d.WriteClaimed(ended, c.settle); err != nil {
		return "", err
	}
	return c.path, os.Remove(part)
}

// written reads a result that can be replaced; nil if there is none.
func written(path string) *result.Document {
	if regular(path) == nil {
		return nil
	}
	d, err := result.Read(path)
	if err != nil {
		return nil
	}
	return d
}

// reportComplete reports to w that a job has failed too late to change its result. The exit code alone says
// otherwise.
func reportComplete(w io.Writer, path string) {
	fmt.Fprintln(w, "perigee: the job failed when its result was complete:", path)
}

// replaceable reports whether a later result replaces one that is written to path now. A pipe or a device would
// get both.
func replaceable(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}
