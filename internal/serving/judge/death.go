package judge

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

	"perigee/internal/kit/cli"
	"perigee/internal/kit/file"
	"perigee/internal/kit/lazyre"
	"perigee/internal/serving/benchlog"
)

// Death is the end of a part of a job before its time.
type Death struct {
	Part string // SETUP, SERVER_0, GEN_1, CLIENT ..., or the log that has an error pattern
	Node string // empty if unknown
	// Code is the exit code: 0 of a part that ended before the job was ready, -1 where a pattern was found in the log
	// of a part that still runs, or noCode.
	Code int
	Log  string   // name of the log
	Line string   // first line of the log that looks like an error
	Tail []string // from there, at most 40 lines

	Noted time.Time // when it had ended
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

// BySlurm reports whether the part ended by a signal with which Slurm ends jobs.
func (d *Death) BySlurm() bool { return d.Killed() || d.Code == sigterm }

// OfScript reports whether it is a part that the script of the job runs itself, and waits for.
func (d *Death) OfScript() bool {
	return slices.Contains([]string{"SETUP", "CONTAINER", "INSTALL", "BUILD", "WAIT", "CLIENT", "EVALUATE"}, d.Part)
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

// tailLines bounds the lines of a log that are shown.
const tailLines = 40

// mostQuoted bounds the bytes of a log that are searched for them.
const mostQuoted = 8 << 20

// tailBytes bounds the end of a worker's log that is searched for patterns.
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
	done, files := Done(dir), logs(dir, "*")
	d := cause(readExits(dir, done, files))
	if d == nil && !done {
		d = findPattern(dir, files, patterns)
	}
	if d != nil {
		d.quote(dir)
	}
	return d
}

// cause returns the one of the parts that have ended whose end has led to that of the others, nil if none has failed.
// What was waiting for a dead server knows less than the server itself, and of two servers the second may have lost the
// first. The job ends its servers by SIGTERM once a part of its script has failed.
func cause(ended []*Death) (first *Death) {
	var script *Death // the first part of the script that has failed
	for _, d := range ended {
		if d.Code != 0 && d.OfScript() && (script == nil || d.Noted.Before(script.Noted)) {
			script = d
		}
	}
	for _, d := range ended {
		server := !d.OfScript()
		if d.Code == 0 || server && d.Code == sigterm && script != nil && script.Noted.Before(d.Noted) {
			continue
		}
		if first == nil || server && first.OfScript() || server != first.OfScript() && d.Noted.Before(first.Noted) {
			first = d
		}
	}
	if first == nil || first.Part != "WAIT" {
		return first
	}
	for _, d := range ended { // a pipe may have hidden the code of a server that was waited for
		if d.Code == 0 && !d.OfScript() && !d.Noted.After(first.Noted) {
			first = d
		}
	}
	return first
}

// findPattern looks for an error in the logs of workers after which the job hangs.
func findPattern(dir string, files []string, patterns []*regexp.Regexp) *Death {
	for _, name := range matching(files, workerLogs...) {
		path := filepath.Join(dir, name)
		tail, _, err := readTail(path, tailBytes)
		if err == nil && slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.Match(tail) }) {
			part := strings.TrimSuffix(strings.TrimPrefix(name, "3_output_"), ".log")
			return &Death{Part: part, Code: -1, Log: name, Noted: writtenAt(path)}
		}
	}
	return nil
}

// The exit codes of parts that a signal has ended are above signal.
const (
	signal  = 128
	sigterm = signal + int(syscall.SIGTERM)
)

// noCode is the exit code of a part whose mark is empty: there was no room for more when it ended.
const noCode = -2

// endedFile lists the parts that had ended when the job wrote its end mark.
const endedFile = "8_ended.txt"

// leftFile lists the tasks of servers that ended well between the beginning of the client and the end mark.
const leftFile = "8_left.txt"

// mostLeft bounds how many of them are named.
const mostLeft = 4

// left says which tasks of servers have ended well while the client measured: the figures may be of the others alone.
// It returns nil of a job that is not done, since Slurm ends servers, too.
func left(dir string) (words []string) {
	if !Done(dir) {
		return nil
	}
	text, _ := file.Read(filepath.Join(dir, leftFile), mostMarks) // most jobs write none
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
func Done(dir string) bool { return len(logs(dir, EndMark)) > 0 }

// writtenAt returns the time when a file was written; zero if that is not known.
func writtenAt(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// readExits reads the marks of the parts that have ended: of a job that is done those that it has listed before, else
// all. files are those of the folder.
func readExits(dir string, done bool, files []string) (ended []*Death) {
	var parts []string
	if done {
		text, _ := file.Read(filepath.Join(dir, endedFile), mostMarks) // other templates write none
		parts = strings.Fields(string(text))
	} else {
		parts = logs(filepath.Join(dir, "exits"), "*") // none before the job runs
	}
	slices.Sort(parts)
	for _, part := range slices.Compact(parts) {
		if part != filepath.Base(part) || strings.HasPrefix(part, ".") || part == "PROBE" {
			continue
		}
		if d := readExit(dir, part, files); d != nil {
			ended = append(ended, d)
		}
	}
	return ended
}

// mostMarks bounds the files in which a job notes its parts.
const mostMarks = 64 << 10

// readExit reads the mark of a part that has ended: its exit code and its node. files are those of the folder.
func readExit(dir, part string, files []string) *Death {
	path := filepath.Join(dir, "exits", part)
	data, err := file.Read(path, mostMarks)
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
	d := &Death{Part: part, Code: code, Log: "3_output_" + part + ".log", Noted: writtenAt(path)}
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

var looksWrong = lazyre.New(`(?i)\b(error|traceback|exception|fatal|fail(ed|ure)?|killed|abort(ed)?|segmentation|core dumped|cannot|not found|no such|out of memory|refused)\b`)

// quote takes the first line that looks like an error, or the exception of a traceback that it begins, and what
// follows. Without one, the end of the log is what there is. Of a log of gigabytes its last mostQuoted bytes
// must do: the nodes are not given back before.
func (d *Death) quote(dir string) {
	text, cut, err := readTail(filepath.Join(dir, d.Log), mostQuoted)
	if err != nil {
		d.Line = err.Error()
		return
	}
	var trace *traceback
	benchlog.EachLine(bytes.NewReader(text), func(at int64, line []byte) { // which reads without errors
		if cut && at == 0 {
			return // the end of a line
		}
		text := string(bytes.ToValidUTF8(bytes.TrimRight(line[:min(len(line), 400)], " \t"), []byte("?")))
		if d.Line == "" && looksWrong.MatchString(text) && !strings.Contains(text, "ailed requests:") {
			d.Line, d.Tail, trace = text, nil, newTraceback(text)
		} else if trace != nil {
			trace.read(text)
		}
		switch {
		case d.Line != "" && len(d.Tail) == tailLines:
			return
		case len(d.Tail) == tailLines:
			d.Tail = d.Tail[1:]
		}
		d.Tail = append(d.Tail, text)
	})
	if trace != nil {
		d.Line = cmp.Or(trace.cause(), d.Line)
	}
	if d.Line == "" && len(d.Tail) > 0 {
		d.Line = d.Tail[len(d.Tail)-1]
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

// readTail reads the last bytes of a file, at most most. cut says that there are more before.
func readTail(path string, most int64) (tail []byte, cut bool, err error) {
	f, err := file.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	at, err := f.Seek(-most, io.SeekEnd)
	if err != nil { // it is shorter
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		tail, err = io.ReadAll(io.LimitReader(f, most))
	}
	return tail, at > 0, err
}
