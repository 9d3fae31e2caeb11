package batch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// ledgerName and listName are the files of an output folder that hold the jobs:
// all that has happened to them, and their ids alone, as TensorRT-LLM's framework
// has them.
const (
	ledgerName = "jobs.jsonl"
	listName   = "jobs.txt"
)

// The events of a task, and of a run as a whole.
const (
	began      = "began"
	resumed    = "resumed"    // began with what the run before had done
	submitting = "submitting" // written before sbatch is called
	submitted  = "submitted"
	rejected   = "rejected"
	ended      = "ended"      // the job is over
	recorded   = "recorded"   // its figures are on disk
	stopping   = "stopping"   // the run has a reason to cancel the job; written before scancel is called
	cancelling = "cancelling" // an interrupted run cancels the job; written before scancel is called
	cancelled  = "cancelled"
	finished   = "finished"
)

// Event is a line of the ledger.
type Event struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Task    string    `json:"task,omitempty"`
	Job     string    `json:"job,omitempty"`
	Comment string    `json:"comment,omitempty"` // of the job, by which it is found again
	Dir     string    `json:"dir,omitempty"`
	State   string    `json:"state,omitempty"`  // of a recorded task: its verdict
	Reason  string    `json:"reason,omitempty"` // why the job is stopped, or has failed where no folder says it
	PID     int       `json:"pid,omitempty"`
	Tasks   []string  `json:"tasks,omitempty"` // of a run: all that it is about

	answered bool // of an intent: sbatch has ended
}

// Ledger is the record of an output folder's jobs. Each event is on the disk when
// Add returns. One process at a time has it open.
type Ledger struct {
	dir    string // absolute, the output folder
	file   *os.File
	list   *os.File
	events []Event
	pace   pace
}

// OpenLedger opens or makes the ledger of an output folder, whose path is absolute.
func OpenLedger(dir string) (*Ledger, error) {
	file, err := os.OpenFile(filepath.Join(dir, ledgerName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fault.New(fault.Output, "%w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fault.New(fault.Output, "%s: its file system takes no locks (flock): %w", dir, err).
				WithHint("set OUTPUT_PATH to a folder of another file system, or mount this one with locks (Lustre: -o flock)")
		}
		return nil, fault.New(fault.Output, "%s: another run of perigee disagg is using this folder, or an sbatch that one has left",
			dir).WithHint("wait for it, or set OUTPUT_PATH to another folder")
	}
	l := &Ledger{dir: dir, file: file}
	if err := l.read(); err != nil {
		file.Close()
		return nil, err
	}
	l.list, err = os.OpenFile(filepath.Join(dir, listName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		file.Close()
		return nil, fault.New(fault.Output, "%w", err)
	}
	return l, nil
}

// mostLedger bounds a ledger, in bytes: one of 10,000 jobs has 6 MB.
const mostLedger = 64 << 20

// read reads the events. A last line without its end, which a killed process may
// leave, is cut off.
func (l *Ledger) read() error {
	data, err := file.Read(l.file.Name(), mostLedger)
	if err != nil {
		return fault.New(fault.Input, "%w", err).WithHint("move it away if none of its jobs is running")
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	if l.events, err = parse(data); err != nil {
		return fault.New(fault.Input, "%s: line %d is not an event: %w", l.file.Name(), len(l.events)+1, err).
			WithHint("the file was changed by something else; move it away if none of its jobs is running")
	}
	if err := l.file.Truncate(int64(len(data))); err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	return nil
}

// parse reads the events of a ledger, up to the first line that is none.
func parse(data []byte) (events []Event, err error) {
	for line := range bytes.Lines(data) {
		var e Event
		err = json.Unmarshal(line, &e)
		if err == nil && e.Event == "" {
			err = errors.New("it has no name")
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// Add writes an event to the disk.
func (l *Ledger) Add(e Event) error {
	e.Time = time.Now().Round(time.Millisecond)
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err = l.write(append(line, '\n')); err == nil {
		err = unix.Fdatasync(int(l.file.Fd()))
	}
	if err == nil && e.Event == submitted {
		_, err = l.list.WriteString(e.Job + "\n")
	}
	if err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	l.events = append(l.events, e)
	return nil
}

// Recorded notes that the figures of a task are on disk, or why there are none if no folder says it.
func (l *Ledger) Recorded(t *Task, state, reason string) error {
	return l.Add(Event{Event: recorded, Task: t.Name, Job: t.Job.ID, State: state, Reason: reason})
}

// write appends a line, or nothing: where a full disk takes a part of it, the next line would end it.
func (l *Ledger) write(line []byte) error {
	end, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err = l.file.Write(line); err != nil {
		return errors.Join(err, l.file.Truncate(end))
	}
	return nil
}

// Held is the file that keeps others from the ledger while it is open, here or in a command that was given it.
func (l *Ledger) Held() *os.File { return l.file }

// Close lets others open the ledger, whatever an sbatch that has ended has left behind.
func (l *Ledger) Close() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close(), l.list.Close())
}

// Last returns the last event of every task of the last run that began, with all
// that went on with it, and whether that run finished.
func (l *Ledger) Last() (tasks map[string]Event, done bool) {
	tasks, done = map[string]Event{}, true
	for _, e := range l.events {
		switch e.Event {
		case began:
			clear(tasks)
			done = false
		case resumed:
			done = false
		case finished:
			done = true
		default:
			old := tasks[e.Task]
			if e.Event == stopping { // it may stay all the same
				old.Reason = e.Reason
				tasks[e.Task] = old
				continue
			}
			if e.Job == "" && e.Event != submitting {
				e.Job = old.Job
			}
			e.Comment, e.Dir = cmp.Or(e.Comment, old.Comment), cmp.Or(e.Dir, old.Dir)
			if e.Reason == "" && e.Job == old.Job {
				e.Reason = old.Reason
			}
			if (e.Event == ended || e.Event == cancelling) && (old.Event == submitted || old.Event == cancelling) {
				e.Time = old.Time // the time of its job counts from when it was submitted
			}
			tasks[e.Task] = e
		}
	}
	return tasks, done
}

// Forget ends the last run, so that a new one does not go on with its tasks.
func (l *Ledger) Forget() error { return l.Add(Event{Event: finished}) }

// Open returns the last events of those tasks whose jobs may still be in Slurm.
func (l *Ledger) Open() map[string]Event {
	tasks, _ := l.Last()
	for name, e := range tasks {
		if e.Event != submitting && e.Event != submitted && e.Event != cancelling {
			delete(tasks, name)
		}
	}
	return tasks
}

// FailedSuffix marks the result folder of a case that has failed.
const FailedSuffix = "_ERROR"

// FolderName is the name, in a folder that environment.log_dir names, of the folder for the cases of an output folder,
// whose path is absolute: runs into other output folders may use the same log_dir, at the same time.
func FolderName(output string) string {
	name, sum := filepath.Base(output), sha256.Sum256([]byte(output))
	return fmt.Sprintf("%s-%x", name[:min(len(name), 100)], sum[:4])
}

// Elsewhere lists the folders outside of an output folder in which its ledger has cases.
func Elsewhere(output string) []string {
	output, err := filepath.Abs(output)
	if err != nil {
		return nil
	}
	data, _ := file.Read(filepath.Join(output, ledgerName), mostLedger) // a table alone has none
	events, _ := parse(data)
	var list []string
	for _, e := range events {
		above := filepath.Dir(e.Dir)
		if e.Dir != "" && filepath.Base(above) == FolderName(output) && !slices.Contains(list, above) {
			list = append(list, above)
		}
	}
	return list
}
