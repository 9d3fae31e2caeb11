package benchlog

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/lazyre"
)

// table holds the state of reading a table of AIPerf or GenAI-Perf: a row of statistics per figure, whose name may go
// on in the rows below, where the other cells are empty.
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

// mostName bounds the name of a row, in bytes, beyond which nothing is added to it.
const mostName = 1 << 10

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
var totals = map[string]string{
	"output token throughput": outputRate, "total token throughput": totalRate, "request throughput": requestRate,
	"output sequence length": meanOutput, "input sequence length": meanInput, "benchmark duration": duration,
	"request count": successful, "error request count": failed, "total osl": generated, "total isl": input,
	"total output sequence length": generated, "total input sequence length": input,
}

// isNamed reports whether a name is one of these.
func isNamed(name string) bool { return quantities[name] != "" || totals[name] != "" }

// named gives a level a statistic of the figure that AIPerf calls so, and returns what was wanted if it cannot be that.
func (l *Level) named(name, unit, stat string, x float64) (wanted string) {
	if quantity := quantities[name]; quantity != "" {
		if units[unit] == 0 {
			return "ms, s, us or ns"
		}
		l.set(quantity, stat, x*units[unit])
		return ""
	}
	if stat != "mean" {
		return ""
	}
	return l.put(totals[name], x, unit)
}

// figureOf returns the quantity or the field that a statistic of what AIPerf calls so is, "" for a count and for one
// that is not taken.
func (l *Level) figureOf(name, stat string) string {
	if _, value := l.place(totals[name]); value != nil && stat == "mean" {
		return totals[name]
	}
	return quantities[name]
}

// row takes a line of a table, and reports whether it is one.
func (m *machine) row(line []byte) bool {
	if !hasSuffix(line, verticals) {
		if m.table.client != "" || m.table.errors {
			m.border(line)
		}
		return false
	}
	from := len(line)
	for _, vertical := range verticals { // from the first of the same kind: without any prefix
		if bytes.HasSuffix(line, vertical) {
			from = bytes.Index(line, vertical)
		}
	}
	text := separators.Replace(string(line[from:]))
	_, text, _ = strings.Cut(strings.TrimSuffix(text, "|"), "|")
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
		if len(t.name) < mostName {
			t.name += " " + cells[0]
		}
	case strings.Trim(cells[0], "-: ") == "" && strings.Trim(cells[1], "-: ") == "": // a rule of Markdown
	default:
		m.flush()
		t.name, t.cells, t.line = cells[0], cells[1:], m.log.Lines
	}
	return true
}

func hasSuffix(line []byte, ends [][]byte) bool {
	return slices.ContainsFunc(ends, func(end []byte) bool { return bytes.HasSuffix(line, end) })
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
		if i < len(t.columns) && t.columns[i] != "" && !slices.Contains([]string{"", "N/A", "-"}, cell) {
			stats[t.columns[i]] = cell
		}
	}
	name, unit := splitUnit(t.name)
	t.name = ""
	t.rows++
	if !isNamed(name) {
		return
	}
	if !t.began {
		t.began = true
		m.beginBlock(t.client)
	}
	l := m.current()
	for _, stat := range slices.Sorted(maps.Keys(stats)) {
		text := stats[stat]
		x, ok := Separated(text)
		wanted := "a number"
		if ok && l != nil {
			wanted = l.named(name, unit, stat, x)
		}
		isNumber := ok || l != nil && l.noNumber(l.figureOf(name, stat), stat, name+" ("+stat+")", text)
		if l != nil && wanted != "" && (ok || !isNumber) {
			l.unreadable(quantities[name])
		}
		if !ok || l != nil && wanted != "" {
			m.log.unread(t.line, name+" ("+stat+")", wanted, strings.TrimSpace(text+" "+unit))
		}
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
		m.log.unread(m.log.Lines, "Count of failed requests", wantedWhole, cells[3])
		return
	}
	l := m.current()
	if l == nil && len(m.blocks) > 0 {
		l = m.blocks[len(m.blocks)-1]
	}
	if l != nil && l.Client == AIPerf && !m.ended {
		l.Failed = Or(l.Failed, 0) + n
	} else {
		m.summed = Or(m.summed, 0) + n
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
var thousands = lazyre.New(`^-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?$`)

// Separated reads a number of at most [MostFigure] that may have separators of thousands: 15,559.05.
func Separated(text string) (float64, bool) {
	if thousands.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil && math.Abs(x) <= MostFigure
}
