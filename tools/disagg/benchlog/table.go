package benchlog

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// table holds the state of reading a table of AIPerf or GenAI-Perf: a row of statistics per figure, whose name may go on
// in the rows below, where the other cells are empty.
type table struct {
	client  string   // that prints such a table; "" outside of tables
	columns []string // the statistic of each column behind the name; "" for others
	errors  bool     // it counts the failed requests instead
	began   bool     // it has had a row with a known figure
	rows    int

	name  string // the row so far
	cells []string
	line  int
}

// separators are the vertical lines of tables, borders what their horizontal ones begin and end with.
var (
	separators = strings.NewReplacer("┃", "|", "│", "|", "║", "|")
	verticals  = [][]byte{[]byte("│"), []byte("┃"), []byte("|"), []byte("║")}
	bottoms    = [][]byte{[]byte("┘"), []byte("╯"), []byte("╝"), []byte("+")}
)

// quantities are AIPerf's and GenAI-Perf's names of latencies. Their inter token latency is the mean of each request,
// which other clients call TPOT; it keeps the name that they give it.
var quantities = map[string]string{
	"time to first token": "TTFT", "ttft": "TTFT", "request latency": "E2EL", "inter token latency": "ITL",
	"time per output token": "TPOT",
}

// totals are their names of other figures, of which the mean counts.
var totals = map[string]figure{
	"output token throughput": {value: func(l *Level) *float64 { return &l.Throughput }},
	"total token throughput":  {value: func(l *Level) *float64 { return &l.TotalRate }},
	"request throughput":      {value: func(l *Level) *float64 { return &l.RequestRate }},
	"output sequence length":  {value: func(l *Level) *float64 { return &l.meanOutput }},
	"input sequence length":   {value: func(l *Level) *float64 { return &l.meanInput }},
	"benchmark duration":      {value: func(l *Level) *float64 { return &l.Duration }},
	"request count":           {count: func(l *Level) *int { return &l.Successful }},
	"error request count":     {count: func(l *Level) *int { return &l.Failed }},
	"total osl":               {count: func(l *Level) *int { return &l.Generated }},
	"total isl":               {count: func(l *Level) *int { return &l.Input }},

	"total output sequence length": {count: func(l *Level) *int { return &l.Generated }},
	"total input sequence length":  {count: func(l *Level) *int { return &l.Input }},
}

// row takes a line of a table, and reports whether it is one.
func (m *machine) row(line []byte) bool {
	if !hasSuffix(line, verticals) {
		if m.table.client != "" || m.table.errors {
			m.border(line)
		}
		return false
	}
	text := separators.Replace(string(line))
	_, text, _ = strings.Cut(strings.TrimSuffix(text, "|"), "|") // from the first |: without srun's prefix
	cells := strings.Split(text, "|")
	if len(cells) < 2 || len(cells) > 40 {
		return false
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	switch t := &m.table; {
	case m.header(cells):
	case t.errors:
		m.failures(cells)
	case t.client == "":
		return false
	case strings.Join(cells[1:], "") == "":
		t.name += " " + cells[0]
	case strings.Trim(cells[0], "-: ") == "" && strings.Trim(cells[1], "-: ") == "": // a rule of Markdown
	default:
		m.flush()
		t.name, t.cells, t.line = cells[0], cells[1:], m.log.Lines
	}
	return true
}

func hasSuffix(line []byte, ends [][]byte) bool {
	for _, end := range ends {
		if bytes.HasSuffix(line, end) {
			return true
		}
	}
	return false
}

// header begins a table with its first row.
func (m *machine) header(cells []string) bool {
	var client string
	switch cells[0] {
	case "Metric":
		client = AIPerf
	case "Statistic":
		client = GenAIPerf
	case "Code":
		if len(cells) == 4 && cells[3] == "Count" { // AIPerf's summary of errors
			m.flush()
			m.table = table{errors: true}
			return true
		}
	}
	t := table{client: client}
	for _, cell := range cells[1:] {
		t.columns = append(t.columns, statistic(cell))
	}
	if client == "" || strings.Join(t.columns, "") == "" {
		return false
	}
	m.flush()
	m.table = t
	return true
}

// border takes a line that is no row: the rule below the last row ends the table.
func (m *machine) border(line []byte) {
	t := &m.table
	if t.rows == 0 && t.name == "" || !hasSuffix(line, bottoms) {
		return
	}
	m.flush()
	client := t.client
	m.table = table{}
	if m.loose != nil && m.loose.Client == client {
		m.endLoose(true)
	}
}

// flush reads the row that is complete.
func (m *machine) flush() {
	t := &m.table
	if t.name == "" {
		return
	}
	stats := map[string]string{}
	for i, cell := range t.cells {
		if i < len(t.columns) && t.columns[i] != "" && cell != "" && cell != "N/A" {
			stats[t.columns[i]] = cell
		}
	}
	name, unit := splitUnit(t.name)
	t.name = ""
	t.rows++
	_, isLatency := quantities[name]
	if _, isTotal := totals[name]; !isLatency && !isTotal {
		return
	}
	if !t.began {
		t.began = true
		m.beginBlock(t.client)
	}
	if l := m.current(); l != nil {
		m.named(l, name, unit, stats, t.line)
	}
}

// named gives a level the statistics of a figure by AIPerf's name of it.
func (m *machine) named(l *Level, name, unit string, stats map[string]string, line int) {
	read := func(stat string) (float64, bool) {
		value, ok := Separated(stats[stat])
		if !ok {
			m.log.unread(line, name+" ("+stat+")", "a number", stats[stat])
		}
		return value, ok
	}
	if quantity, ok := quantities[name]; ok {
		factor := units[unit]
		if factor == 0 {
			m.log.unread(line, name, "ms, s, us or ns", unit)
			return
		}
		for stat := range stats {
			if value, ok := read(stat); ok {
				l.set(quantity, stat, value*factor)
			}
		}
		return
	}
	if stats["mean"] == "" {
		return
	}
	value, ok := read("mean")
	switch f := totals[name]; {
	case !ok:
	case f.value != nil:
		if factor := units[unit]; factor != 0 && name == "benchmark duration" {
			value *= factor / 1e3
		}
		*f.value(l) = value
	case value != math.Trunc(value) || value < 0 || value > 1e15:
		m.log.unread(line, name, "a whole number", stats["mean"])
	default:
		*f.count(l) = int(value)
	}
}

// failures adds a row of AIPerf's summary of errors to the failed requests of the run: it stands before or behind the
// table of figures, depending on the version.
func (m *machine) failures(cells []string) {
	m.table.rows++
	if len(cells) != 4 || cells[3] == "" { // a message that goes on
		return
	}
	n, ok := Separated(cells[3])
	if !ok || n != math.Trunc(n) || n < 0 || n > 1e9 {
		m.log.unread(m.log.Lines, "Count of failed requests", "a whole number", cells[3])
		return
	}
	l := m.current()
	if l == nil && len(m.blocks) > 0 {
		l = m.blocks[len(m.blocks)-1]
	}
	if l != nil && l.Client == AIPerf && !m.ended {
		l.Failed = max(0, l.Failed) + int(n)
	} else {
		m.summed = max(0, m.summed) + int(n)
	}
}

// splitUnit separates a name such as "Time to First Token (ms)" from its unit, and writes it small.
func splitUnit(text string) (name, unit string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	if at := strings.LastIndexByte(text, '('); at > 0 && strings.HasSuffix(text, ")") {
		return strings.TrimSpace(text[:at]), text[at+1 : len(text)-1]
	}
	return text, ""
}

// thousands matches a number with separators of thousands.
var thousands = regexp.MustCompile(`^-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?$`)

// Separated reads a number of at most [MostFigure] that may have separators of thousands: 15,559.05.
func Separated(text string) (float64, bool) {
	if thousands.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil && math.Abs(x) <= MostFigure
}
