package batch

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/slurm"
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

// A ledger of 10,000 jobs has 6 MB and some 50,000 events.
const (
	mostLedger = 64 << 20 // bytes
	mostEvents = 500_000
)

// read reads the events. A last line without its end, which a killed process may
// leave, is cut off.
func (l *Ledger) read() error {
	if info, err := l.file.Stat(); err == nil && info.Size() > mostLedger {
		return fault.New(fault.Input, "%s: wanted at most %d MiB, got more", l.file.Name(), mostLedger>>20).
			WithHint("move it away if none of its jobs is running")
	}
	r := bufio.NewReader(l.file)
	var good int64
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fault.New(fault.Input, "%w", err)
		}
		var e Event
		err = json.Unmarshal(line, &e)
		if err == nil && e.Event == "" {
			err = errors.New("it has no name")
		}
		if err == nil && len(l.events) == mostEvents {
			err = fmt.Errorf("wanted at most %d events", mostEvents)
		}
		if err != nil {
			return fault.New(fault.Input, "%s: line %d is not an event: %w", l.file.Name(), len(l.events)+1, err).
				WithHint("the file was changed by something else; move it away if none of its jobs is running")
		}
		l.events = append(l.events, e)
		good += int64(len(line))
	}
	if err := l.file.Truncate(good); err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	_, err := l.file.Seek(good, io.SeekStart)
	return err
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

// write appends a line, or nothing: where a full disk takes a part of it, the next line would end it.
func (l *Ledger) write(line []byte) error {
	end, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err = l.file.Write(line); err != nil {
		_, seek := l.file.Seek(end, io.SeekStart)
		return errors.Join(err, l.file.Truncate(end), seek)
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
			if e.Comment == "" {
				e.Comment = old.Comment
			}
			if e.Reason == "" && e.Job == old.Job {
				e.Reason = old.Reason
			}
			if e.Dir == "" {
				e.Dir = old.Dir
			}
			if (e.Event == ended || e.Event == cancelling) && (old.Event == submitted || old.Event == cancelling) {
				e.Time = old.Time // what counts is when its job was submitted
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

// LogsFolder is the folder in an output folder that holds the results of the jobs.
const LogsFolder = "slurm_logs"

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
	data, err := file.Read(filepath.Join(output, ledgerName), mostLedger)
	if err != nil {
		return nil
	}
	var list []string
	for line := range bytes.Lines(data) {
		var e Event
		if json.Unmarshal(line, &e) != nil || e.Dir == "" {
			continue
		}
		if above := filepath.Dir(e.Dir); filepath.Base(above) == FolderName(output) && !slices.Contains(list, above) {
			list = append(list, above)
		}
	}
	return list
}

// newComment invents what the ledger knows a job by.
func newComment() string { return "perigee-" + rand.Text() }

var comment = regexp.MustCompile(`^perigee-[A-Z2-7]{26}$`)

// shown is the comment that the job has. Others see it in squeue, and could not make a ledger that owns the job: it
// is a hash of what the ledger holds. It is empty where that is no comment.
func shown(text string) string {
	if !comment.MatchString(text) {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return "perigee-" + base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// bears reports whether a job has the comment that a text of the ledger is shown as.
func bears(job slurm.Job, text string) bool { return job.Comment != "" && job.Comment == shown(text) }

// owns reports whether a job of this user is the one of an event. The ledger alone
// proves nothing: it may have come from somewhere else, with the ids of other jobs. So
// Slurm must know the job by what the event's comment is shown as, or (some sites, and options of
// sbatch, change it) by a script in this output folder.
func (l *Ledger) owns(e Event, job slurm.Job) bool {
	dir := filepath.Clean(e.Dir)
	return bears(job, e.Comment) ||
		l.places(dir) && filepath.Dir(job.Command) == dir
}

// places reports whether the folder of a case is one where runs into this output folder make them: in it, or in a
// folder of its name in environment.log_dir.
func (l *Ledger) places(dir string) bool {
	above := filepath.Dir(dir)
	return above == filepath.Join(l.dir, LogsFolder) || filepath.Base(above) == FolderName(l.dir)
}

// find returns the id of the job of an intent among those of the user, "" if there is none. Where no job has its
// comment, which some sites and options of sbatch change, it is one that runs its script. A folder may have had earlier
// jobs: the ledger knows those, or they have begun before.
func (l *Ledger) find(mine map[string]slurm.Job, e Event) string {
	for id, job := range mine {
		if bears(job, e.Comment) {
			return id
		}
	}
	const slack = 5 * time.Second // of clocks
	for id, job := range mine {
		known := slices.ContainsFunc(l.events, func(e Event) bool { return e.Job == id })
		pending := !job.Over() && (job.Started.IsZero() || job.State == "PENDING")
		if !known && l.owns(e, job) && (pending || job.Started.After(e.Time.Add(-slack))) {
			return id
		}
	}
	return ""
}
