package batch

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"perigee/internal/cli"
	"perigee/internal/file"
	"perigee/tools/disagg/benchlog"
	"perigee/tools/disagg/verdict"
)

// Death is the end of a part of a job before its time.
type Death struct {
	Part string   // SETUP, SERVER_0, GEN_1, CLIENT ..., or the log that has an error pattern
	Node string   // empty if unknown
	Code int      // exit code; -1: a pattern was found in a log of a part that still runs; 0: see before; or noCode
	Log  string   // name of the log
	Line string   // first line of the log that looks like an error
	Tail []string // from there, at most 40 lines

	noted time.Time // when it had ended
}

// Words says what has ended and where.
func (d *Death) Words() string {
	words := d.Part
	if d.Node != "" {
		words += " on " + d.Node
	}
	switch {
	case d.Code == noCode:
		return words + " has ended, and there was no room on the disk to note how"
	case d.Code < 0:
		return words + " has an error from which jobs do not recover"
	}
	words += fmt.Sprintf(" has ended with code %d", d.Code)
	if d.Code == 0 {
		words += " before it was ready"
	}
	return words
}

// before returns the first of the servers that had ended with code 0 while the job still waited for them, such as one
// whose own code a pipe has hidden, instead of what has waited; d where there is none.
func (d *Death) before(ended []*Death) *Death {
	first := d
	for _, server := range ended {
		if d.Part == "WAIT" && server.Code == 0 && !server.OfScript() && !server.noted.After(first.noted) {
			first = server
		}
	}
	return first
}

// BySignal reports whether a signal has ended the part.
func (d *Death) BySignal() bool { return d.Code > signal }

// BySlurm reports whether the part ended by a signal with which Slurm ends jobs.
func (d *Death) BySlurm() bool { return d.Killed() || d.Code == signal+int(syscall.SIGTERM) }

// OfScript reports whether it is a part that the script of the job runs itself, and waits for.
func (d *Death) OfScript() bool {
	return slices.Contains([]string{"SETUP", "CONTAINER", "INSTALL", "BUILD", "WAIT", "CLIENT", "EVALUATE"}, d.Part)
}

// causes reports whether it is likelier than another to be the cause of both: what was waiting for a dead part
// knows less than the part itself, and of two servers the second may have lost the first.
func (d *Death) causes(other *Death) bool {
	if d.OfScript() != other.OfScript() {
		return other.OfScript()
	}
	return d.noted.Before(other.noted)
}

// told reports whether it is a server that SIGTERM has ended after a part of the script, the first one that is dead, if
// there is any, had failed: where the job could not ask Slurm, it notes also what Slurm has ended for that.
func (d *Death) told(first *Death) bool {
	return !d.OfScript() && d.Code == signal+int(syscall.SIGTERM) && first != nil && first.noted.Before(d.noted)
}

// Killed reports whether it was the signal that the kernel sends when memory is short.
func (d *Death) Killed() bool { return d.Code == signal+int(syscall.SIGKILL) }

// Report says what has ended, where, and shows its log.
func (d *Death) Report(task string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s; first error in %s: %s", task, d.Words(), d.Log, d.Line)
	for _, line := range d.Tail {
		b.WriteString("\n  | " + line)
	}
	return b.String()
}

// tailLines is how many lines of a log show what happened.
const tailLines = 40

// mostQuoted is how much of a log is searched for them.
const mostQuoted = 8 << 20

// tailBytes is how much of a log's end is searched.
const tailBytes = 100 << 10

// EarlyPatterns are errors in the logs of workers after which a job hangs.
var EarlyPatterns = []*regexp.Regexp{
	regexp.MustCompile(`(?s)\[E\] Traceback.*mpi4py\.MPI\.Comm\.allgather`),
	regexp.MustCompile(`(?s)\[E\] Traceback.*pickle data was truncated`),
}

// workerLogs are the logs that are searched for them.
var workerLogs = []string{"3_output_*.log", "output_gen_*.log", "output_ctx_*.log"}

// logsOf says which logs a part writes.
var logsOf = []struct{ part, log string }{
	{"SETUP", "1_setup.log"}, {"CONTAINER", "1_container_launch.log"}, {"INSTALL", "2_install.log"},
	{"BUILD", "2_build.log"},
	{"WAIT", "5_wait_server.log"}, {"CLIENT", "6_bench.log"}, {"EVALUATE", "7_accuracy_eval_*.log"},
	{"PROBE", "0_probe.log"}, {"SERVER", "4_output_server.log"}, {"SCRIPT", "slurm-*.err"},
}

// FindDeath looks for a part that has ended with an error, and for error patterns
// in the logs of workers. It returns nil where all is well. Of a job that is done only
// those parts count that had ended before: Slurm ends the others.
func FindDeath(dir string, patterns []*regexp.Regexp) *Death {
	var parts []string
	done := Done(dir)
	if done {
		const most = 64 << 10
		text, _ := file.Read(filepath.Join(dir, endedFile), most) // other templates write none
		parts = strings.Fields(string(text))
	} else {
		entries, _ := os.ReadDir(filepath.Join(dir, "exits")) // none before the job runs
		for _, e := range entries {
			parts = append(parts, e.Name())
		}
	}
	slices.Sort(parts)
	files := logs(dir, "*")
	var dead, ended []*Death
	var ofScript *Death // the first that is dead
	for _, part := range slices.Compact(parts) {
		if part != filepath.Base(part) || strings.HasPrefix(part, ".") || part == "PROBE" {
			continue
		}
		if d := readExit(dir, part, files); d != nil {
			ended = append(ended, d)
		}
	}
	for _, d := range ended {
		if d.Code == 0 {
			continue
		}
		dead = append(dead, d)
		if d.OfScript() && (ofScript == nil || d.noted.Before(ofScript.noted)) {
			ofScript = d
		}
	}
	var first *Death
	for _, d := range dead {
		if !d.told(ofScript) && (first == nil || d.causes(first)) {
			first = d
		}
	}
	if first != nil {
		first = first.before(ended)
		first.quote(dir)
		return first
	}
	if done {
		return nil
	}
	for _, name := range matching(files, workerLogs...) {
		tail, err := readTail(filepath.Join(dir, name), tailBytes)
		if err != nil || !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.Match(tail) }) {
			continue
		}
		d := &Death{Part: strings.TrimSuffix(strings.TrimPrefix(name, "3_output_"), ".log"), Code: -1, Log: name}
		d.noted = writtenAt(filepath.Join(dir, name))
		d.quote(dir)
		return d
	}
	return nil
}

// signal is what exit codes of parts that a signal has ended are above.
const signal = 128

// noCode is the exit code of a part whose mark is empty: there was no room for more when it ended.
const noCode = -2

// endedFile lists the parts that had ended when the job wrote its end mark.
const endedFile = "8_ended.txt"

// leftFile lists the tasks of servers that ended well between the beginning of the client and the end mark.
const leftFile = "8_left.txt"

// mostLeft is how many of them are named.
const mostLeft = 4

// Left says which tasks of servers have ended well while the client measured: the figures may be of the others alone.
// It returns nil of a job that is not done, since Slurm ends servers, too.
func Left(dir string) (words []string) {
	if !Done(dir) {
		return nil
	}
	const most = 64 << 10
	text, _ := file.Read(filepath.Join(dir, leftFile), most) // most jobs write none
	more := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) != 2:
		case len(words) == mostLeft:
			more++
		default:
			words = append(words, fmt.Sprintf("a task of %s on %s has ended with code 0 during the benchmark",
				cli.Shortened(fields[0]), cli.Shortened(fields[1])))
		}
	}
	if more > 0 {
		words = append(words, fmt.Sprintf("and so have %s", cli.Count(more, "other")))
	}
	return words
}

// Done reports whether the job has written its end mark.
func Done(dir string) bool { return len(logs(dir, verdict.EndMark)) > 0 }

// mark distinguishes the end of a part from that in another attempt.
func (d *Death) mark() string { return fmt.Sprint(d.Part, d.noted.UnixNano()) }

// writtenAt is when a file was written; zero if that is not known.
func writtenAt(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// readExit reads the mark of a part that has ended: its exit code and its node. files are those of the folder.
func readExit(dir, part string, files []string) *Death {
	const most = 4 << 10
	path := filepath.Join(dir, "exits", part)
	data, err := file.Read(path, most)
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(data))
	code := noCode
	if len(fields) > 0 {
		if code, err = strconv.Atoi(fields[0]); err != nil {
			return nil
		}
	}
	d := &Death{Part: part, Code: code, Log: "3_output_" + part + ".log", noted: writtenAt(path)}
	if len(fields) > 1 {
		d.Node = fields[1]
	}
	for _, l := range logsOf {
		if l.part == part {
			d.Log = cmp.Or(slices.Concat(matching(files, l.log), []string{l.log})...)
		}
	}
	return d
}

var looksWrong = regexp.MustCompile(`(?i)\b(error|traceback|exception|fatal|fail(ed|ure)?|killed|abort(ed)?|segmentation|core dumped|cannot|not found|no such|out of memory|refused)\b`)

// quote takes the first line that looks like an error, and what follows. Without
// one, the end of the log is what there is. Of a log of gigabytes its last mostQuoted bytes
// must do: the nodes are not given back before. A link to a file elsewhere is not
// followed: the folder may have come from a stranger.
func (d *Death) quote(dir string) {
	file, err := file.Open(filepath.Join(dir, d.Log))
	if err != nil {
		d.Line = err.Error()
		return
	}
	defer file.Close()
	var tail []string
	cut := false
	if at, err := file.Seek(-mostQuoted, io.SeekEnd); err == nil { // else it is shorter
		cut = at > 0
	} else if _, err := file.Seek(0, io.SeekStart); err != nil {
		d.Line = err.Error()
		return
	}
	_, err = benchlog.EachLine(file, func(at int64, line []byte) {
		if cut && at == 0 {
			return // the end of a line
		}
		text := string(bytes.ToValidUTF8(bytes.TrimRight(line[:min(len(line), 400)], " \t"), []byte("?")))
		if d.Line == "" && looksWrong.MatchString(text) && !strings.Contains(text, "ailed requests:") {
			d.Line, tail = text, tail[:0]
		}
		if d.Line != "" && len(tail) == tailLines {
			return
		}
		if len(tail) == tailLines {
			tail = tail[1:]
		}
		tail = append(tail, text)
	})
	if err != nil {
		d.Line = cmp.Or(d.Line, err.Error())
	}
	d.Tail = tail
	if d.Line == "" && len(tail) > 0 {
		d.Line = tail[len(tail)-1]
	}
}

// logs lists the files of a folder that match patterns, by name.
func logs(dir string, patterns ...string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return matching(names, patterns...)
}

// matching are the names that match patterns.
func matching(names []string, patterns ...string) (list []string) {
	for _, name := range names {
		if slices.ContainsFunc(patterns, func(p string) bool { ok, _ := filepath.Match(p, name); return ok }) {
			list = append(list, name)
		}
	}
	return list
}

// readTail reads the last bytes of a file.
func readTail(path string, most int64) ([]byte, error) {
	file, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(-most, io.SeekEnd); err != nil { // it is shorter
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(file, most))
}
