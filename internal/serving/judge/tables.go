package judge

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/serving/benchlog"
)

// Score is one row of a table.
type Score struct {
	Run    int      `json:"run"` // from 1, how often the task, filter and metric have come by then
	Task   string   `json:"task"`
	Filter string   `json:"filter"`
	Metric string   `json:"metric"`
	Value  float64  `json:"value"`          // as printed, usually a fraction; 0 with Text
	Text   string   `json:"text,omitempty"` // what is printed, if that is no number of at most benchlog.MostFigure
	StdErr *float64 `json:"stderr,omitempty"`

	*Judgement
}

// columns holds the places of the cells that are read, besides the task, which comes first.
type columns struct{ filter, metric, value, stderr int }

// usual is lm_eval's table, for a log whose header is lost.
var usual = columns{filter: 2, metric: 4, value: 6, stderr: 8}

// tables reads the tables that lm_eval prints, of one log after the other.
type tables struct {
	at     columns
	task   string
	head   string        // Tasks or Groups: the first word of this table
	again  bool          // a table of groups after that of the tasks: the groups stand in both
	seen   map[key]Score // the last one of each in this table of tasks
	runs   map[key]int   // how often each has come so far
	scores []Score
}

// key names a score.
type key struct{ task, filter, metric string }

// read reads a log. Cells may be padded; an empty task cell means the task of the row above. rest is what stands behind
// the last end of a line, which has been read, too.
func (t *tables) read(r io.Reader) (rest []byte, err error) {
	t.at, t.task, t.head, t.again, t.seen = usual, "", "", false, map[key]Score{}
	if t.runs == nil {
		t.runs = map[key]int{}
	}
	return benchlog.EachLine(r, func(_ int64, line []byte) { t.line(line) })
}

// inOrder returns the scores of all logs, in the order of their runs.
func (t *tables) inOrder() []Score {
	slices.SortStableFunc(t.scores, func(a, b Score) int { return a.Run - b.Run })
	return t.scores
}

// noNumber lists the words for a metric that has no value, besides nan and inf.
var noNumber = map[string]bool{"n/a": true, "none": true, "null": true}

// mostText bounds what is kept of a value that is no number, which may have thousands of digits.
const mostText = 40

var bar = []byte{'|'}

// line reads a row; anything else is skipped.
func (t *tables) line(line []byte) {
	line = bytes.TrimRight(benchlog.Plain(line), " \t")
	if len(line) < 10 || line[len(line)-1] != '|' {
		return
	}
	_, row, ok := bytes.Cut(line[:len(line)-1], bar) // from the first |: without srun's prefix
	if !ok {
		return
	}
	var cells []string
	for cell := range bytes.SplitSeq(row, bar) {
		cells = append(cells, string(bytes.TrimSpace(cell)))
	}
	if len(cells) < 5 || len(cells) > 40 || t.header(cells) {
		return
	}
	t.score(cells)
}

// header takes the places of the columns from a table's first row.
func (t *tables) header(cells []string) bool {
	if cells[0] != "Tasks" && cells[0] != "Groups" {
		return false
	}
	t.again = cells[0] == "Groups" && t.head == "Tasks"
	if !t.again {
		clear(t.seen)
	}
	t.head = cells[0]
	at := columns{-1, -1, -1, -1}
	for i, c := range cells {
		switch c {
		case "Filter":
			at.filter = i
		case "Metric":
			at.metric = i
		case "Value":
			at.value = i
		case "Stderr":
			at.stderr = i
		}
	}
	if at.filter >= 0 && at.metric >= 0 && at.value >= 0 {
		t.at, t.task = at, ""
	}
	return true
}

func (t *tables) score(cells []string) {
	if len(cells) <= max(t.at.filter, t.at.metric, t.at.value) {
		return
	}
	text := cells[t.at.value]
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && math.Abs(value) <= benchlog.MostFigure:
		text = ""
	case err == nil || errors.Is(err, strconv.ErrRange) || noNumber[strings.ToLower(text)]:
		value, text = 0, text[:min(len(text), mostText)] // what was not reached is no reason to look elsewhere
	default:
		return // a rule of dashes, a group's header, or another table
	}
	if task := strings.ToLower(strings.TrimLeft(cells[0], "- ")); task != "" {
		t.task = task
	}
	s := Score{Task: t.task, Filter: cells[t.at.filter], Metric: cells[t.at.metric], Value: value, Text: text}
	if s.Task == "" || s.Filter == "" {
		return
	}
	if t.at.stderr >= 0 && t.at.stderr < len(cells) {
		if e, err := strconv.ParseFloat(cells[t.at.stderr], 64); err == nil && !math.IsNaN(e) && !math.IsInf(e, 0) {
			s.StdErr = &e
		}
	}
	of := key{s.Task, s.Filter, s.Metric}
	if before, seen := t.seen[of]; seen && t.again && before.Value == s.Value && before.Text == s.Text {
		return
	}
	t.seen[of] = s
	t.runs[of]++
	s.Run = t.runs[of]
	t.scores = append(t.scores, s)
}
