// Package trace reads serving traces: when requests came, and how long they were.
//
// The first line decides the format, and the first bytes whether the file is packed by gzip or zstd:
//
//   - Mooncake: a JSON object a line with timestamp, input_length and, if known, output_length and hash_ids. Other keys
//     count for nothing. Lines with chat_id are of the Bailian traces, which have the same keys.
//   - Mooncake with sessions: lines with the same session_id are turns of one session, and a turn has a timestamp, or a
//     delay (delay_ms) in milliseconds after the turn before; see [collector.joinTurns].
//   - dynamo.request.trace.v1: a JSON object a line, whose request_end has request.request_received_ms,
//     request.output_tokens and request.replay. Lines of other events are counted in a note.
//   - JSON lines whose keys are names as in [columns].
//   - Azure: CSV with the columns TIMESTAMP,ContextTokens,GeneratedTokens.
//   - BurstGPT: CSV with the columns Timestamp and Request tokens, and Response tokens if known.
//   - any other CSV whose header names a column of timestamps and one of input tokens, see [columns].
//
// Blank lines and lines that begin with # count for nothing. Timestamps of CSV are numbers, or dates such as
// 2023-11-16 18:17:03.97 and 2023-11-16T18:17:03Z, in UTC where they name no zone. Timestamps never fall, and count
// from the first; only sessions and dynamo.request.trace.v1, which is written as requests end, are sorted by arrival.
//
// # Units of time
//
// The first of these that says it decides:
//
//   - the caller ([Options])
//   - the name of the column or key: timestamp_ms, "time (s)", arrival_time_ns
//   - the digits: the first and the last time are of the years 2000 to 2100 in at most one unit since 1970. It has 10
//     digits in seconds, 13 in milliseconds, 16 in microseconds, 19 in nanoseconds
//   - the format: Bailian and BurstGPT have seconds; dynamo.request.trace.v1 and sessions with delays milliseconds;
//     Mooncake milliseconds, if all of them are whole and do not mean more than 10 requests a second
//   - the mean rate: seconds, if milliseconds would mean more than 100 requests a second, otherwise milliseconds.
//     Most serving systems get between 0.1 and 100 requests a second, and the other unit is 1000 times beyond.
//     Mooncake's whole numbers are seconds only if more than 100 of them mean more than 1000.
//
// The last is an assumption, as [Summary.String] says. It is also for Mooncake's keys with fractions: some tools write
// fractions of milliseconds, others seconds.
//
// # Hash ids
//
// They are whole 64-bit numbers, each of which stands for [Trace.BlockTokens] tokens. Reading does not ask that they
// fit the lengths, since not every caller uses them: see [Trace.CheckBlocks].
package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/value"
)

// How large a trace may be.
const (
	maxLine   = 16 << 20  // bytes: a long request has many hash_ids
	maxTokens = 1 << 40   // of a request
	maxBlock  = 1 << 20   // tokens of a hash id
	maxWindow = 128 << 20 // bytes of its past that zstd data may refer to: as much as zstd --long makes
)

// Options say what a trace itself may not.
type Options struct {
	Unit        string // of timestamps that are numbers: "s", "ms", "us", "ns", or "" to find it out
	BlockTokens int64  // of a hash id; 0: as the format says
}

// Request is a request of a trace.
type Request struct {
	At      time.Duration // since the first request
	Input   int64         // tokens
	Output  int64         // tokens; 0 where it is not known
	HashIDs []uint64      // of the blocks of the prompt; nil where they are not known
	Line    int           // of the file, from 1
}

// Trace is a trace with at least one request, in the order in which they came.
type Trace struct {
	Name     string // of the file, for messages
	Requests []Request
	Summary
	// BlockTokens are those of a hash id, but for the last one of a prompt: 512 in Mooncake's traces, 16 in
	// Bailian's, trace_block_size in Dynamo's, if the caller does not say it; 0 without ids.
	BlockTokens int64

	wrongBlocks error
}

// Summary describes the requests of a trace.
type Summary struct {
	Format    string // such as "Azure CSV"
	Count     int    // of requests
	Span      time.Duration
	Rate      float64  // requests per second: 1 / the mean gap between two, or 0 if all came at once
	Unit      string   // of the timestamps: "s", "ms", "us", "ns", or "" of dates
	UnitFound bool     // or asked for; false where Unit is an assumption
	Epoch     bool     // the digits say the unit: the times count from 1970
	Notes     []string // what else was assumed, counted or left out
}

// String says in words what was understood.
func (s Summary) String() string {
	unit := unitNames[s.Unit]
	switch {
	case s.Epoch:
		unit += " since 1970"
	case !s.UnitFound:
		unit += " (assumed; --trace-unit says it)"
	}
	span := strconv.FormatFloat(float64(s.Span)/1e9, 'f', -1, 64) // Seconds would round twice
	text := fmt.Sprintf("%s, %s s, %s, mean %.4g/s, timestamps %s", s.Format, span, cli.Count(s.Count, "request"), s.Rate,
		unit)
	return strings.Join(append([]string{text}, s.Notes...), "; ")
}

// Times are when the requests came.
func (t *Trace) Times() []time.Duration {
	times := make([]time.Duration, len(t.Requests))
	for i, r := range t.Requests {
		times[i] = r.At
	}
	return times
}

// Load reads a file.
func Load(path string, o Options) (*Trace, error) {
	f, err := file.Open(path)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	defer f.Close()
	return Read(path, f, o)
}

// Is reports whether a file begins like a trace: with a request, or with a header that names what counts.
func Is(path string) bool {
	f, err := file.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	in, err := Unpack(f)
	if err != nil {
		return false
	}
	defer in.Close()
	var c collector
	lines := newLines(in)
	for lines.Scan() {
		if text := lineOf(lines); text != nil {
			return c.addLine(text) == nil
		}
	}
	return false
}

// newLines scans the lines of a trace.
func newLines(in io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	return lines
}

// lineOf is the text of a line, nil for one that counts for nothing.
func lineOf(lines *bufio.Scanner) []byte {
	text := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))) // Excel begins with that
	if len(text) == 0 || text[0] == '#' {
		return nil
	}
	return text
}

// Read reads a trace. Messages call it by its name.
func Read(name string, r io.Reader, o Options) (*Trace, error) {
	if o.Unit != "" && unitOf[o.Unit] == 0 {
		return nil, fault.New(fault.Usage, "--trace-unit: wanted s, ms, us or ns, got %q", o.Unit)
	}
	if o.BlockTokens < 0 || o.BlockTokens > maxBlock {
		return nil, fault.New(fault.Usage, "--block-size: wanted 1 to %d tokens, got %d", maxBlock, o.BlockTokens)
	}
	in, err := Unpack(r)
	if err != nil {
		return nil, unreadable(name, 1, err)
	}
	defer in.Close()
	c := collector{name: name}
	lines := newLines(in)
	n := 1
	for ; lines.Scan(); n++ {
		text := lineOf(lines)
		if text == nil {
			continue
		}
		c.line = n
		if err := c.addLine(text); err != nil && lines.Err() != nil {
			break // the line may have been cut
		} else if err != nil {
			return nil, fault.Wrap(err, "%s:%d", name, n)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fault.New(fault.Input, "%s:%d: wanted a line of at most %d characters, got a longer one", name, n, maxLine)
	} else if err != nil {
		return nil, unreadable(name, n, err)
	}
	return c.trace(o)
}

// unreadable is the error of a file that cannot be read beyond a line.
func unreadable(name string, line int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // plain text has no such end
		return fault.New(fault.Input, "%s: the file is truncated: its packed data ends within line %d", name, line).
			WithHint("copy the file again")
	}
	return fault.New(fault.Input, "%s: %w", name, err)
}

// Unpack reads through gzip or zstd where there is one. What it returns must be closed, unlike r.
func Unpack(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReader(r)
	magic, _ := in.Peek(4) // an error comes again
	switch {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		return gzip.NewReader(in)
	case string(magic) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}

// collector gathers requests. Their times wait for the unit, which may depend on all of them.
type collector struct {
	name   string // of the file
	format string
	unit   string // that the format says, or ""
	named  string // the unit that the name of the column or key says, or ""

	header []field       // of CSV, or nil
	place  [contents]int // of what counts in a record; -1: nowhere
	text   bufio.Reader  // of one line

	object map[string]json.RawMessage // of one line of JSON
	keys   [contents]string           // of what counts in an object; "": not seen yet

	sessions map[string]int // the last request of each session
	before   map[int]int    // the request of the turn before, of those that have one
	anyOrder bool           // lines need not be in the order of their timestamps
	delays   int            // turns whose time is a delay
	others   int            // lines that are no requests

	blockTokens int64 // of a hash id, as the lines say; 0: not known
	withIDs     int   // requests

	line     int // of the file, from 1
	arrivals []arrival
	dates    bool   // the timestamps are dates
	last     string // the last timestamp as it was written
}

// arrival is a request whose time waits for its unit.
type arrival struct {
	Request
	at stamp
}

// field is a value as it was written, and its name in the file.
type field struct{ name, text string }

// add takes a request. An output without text is not known.
func (c *collector) add(at, input, output field, ids []uint64) error {
	s, err := c.stamp(at)
	if err != nil {
		return err
	}
	return c.addAt(s, input, output, ids)
}

func (c *collector) addAt(s stamp, input, output field, ids []uint64) (err error) {
	r := Request{HashIDs: ids, Line: c.line}
	if r.Input, err = tokens(input); err != nil {
		return err
	}
	if output.text != "" {
		if r.Output, err = tokens(output); err != nil {
			return err
		}
	}
	if ids != nil {
		c.withIDs++
	}
	c.arrivals = append(c.arrivals, arrival{r, s})
	return nil
}

// stamp reads a timestamp. The first one decides whether they are dates.
func (c *collector) stamp(at field) (stamp, error) {
	first := len(c.arrivals) == 0
	if first {
		_, c.dates = parseDate(at.text)
	}
	parse, wanted := parseNumber, "a number that fits"
	if isDate := dateLike.MatchString(at.text); c.dates || isDate && first {
		parse, wanted = parseDate, "a date such as 2023-11-16 18:17:03.97"
		if isDate {
			wanted += " (" + dateFault(at.text) + ")"
		}
	}
	s, ok := parse(at.text)
	if !ok {
		return s, fault.New(fault.Input, "%s: wanted %s, got %s", at.name, wanted, short(at.text))
	}
	if !first && !c.anyOrder && s.before(c.arrivals[len(c.arrivals)-1].at) {
		return s, fault.New(fault.Input, "%s: wanted at least %s, that of the line before, got %s", at.name, short(c.last),
			short(at.text)).WithHint("sort the requests by their timestamps")
	}
	c.last = at.text
	return s, nil
}

// tokens reads a number of tokens.
func tokens(f field) (int64, error) {
	n, ok := parseNumber(f.text)
	if !ok || n.billionths != 0 || n.whole < 0 || n.whole > maxTokens {
		return 0, fault.New(fault.Input, "%s: wanted %s, got %s", f.name, value.Tokens(0, maxTokens).Wanted(),
			short(f.text))
	}
	return n.whole, nil
}

// trace makes the trace of all requests.
func (c *collector) trace(o Options) (*Trace, error) {
	n := len(c.arrivals)
	switch {
	case n == 0:
		return nil, fault.New(fault.Input, "%s: wanted a request a line, got none", c.name)
	case c.dates && o.Unit != "":
		return nil, fault.New(fault.Usage, "%s: its timestamps are dates: wanted no --trace-unit, got %s", c.name, o.Unit)
	case c.delays > 0 && o.Unit != "" && o.Unit != "ms":
		return nil, fault.New(fault.Usage, "%s: its delays are milliseconds: wanted no --trace-unit, got %s", c.name, o.Unit)
	}
	if said := c.blockTokens; said != 0 && o.BlockTokens != 0 && o.BlockTokens != said {
		return nil, fault.New(fault.Usage, "%s: --block-size: wanted %d, as its lines say, got %d", c.name, said, o.BlockTokens)
	}
	c.blockTokens = cmp.Or(o.BlockTokens, c.blockTokens, blockTokens[c.format])
	wrong := c.wrongBlocks() // of the lines, before they are joined
	notes, err := c.finish()
	if err != nil {
		return nil, err
	}
	first := c.arrivals[0].at
	units := c.arrivals[n-1].at.minus(first)
	s := Summary{Format: c.format, Count: n, UnitFound: true, Notes: notes}
	unit := time.Second
	if !c.dates {
		s.Unit, s.UnitFound, s.Epoch = c.decide(o, float64(n-1)/units)
		unit = unitOf[s.Unit]
	}
	if c.delays > 0 && s.Unit != "" && s.Unit != "ms" {
		return nil, fault.New(fault.Input, "%s: its timestamps are %s, and its delays milliseconds: wanted both in milliseconds",
			c.name, unitNames[s.Unit])
	}
	const most = 290 // years, of the 292 of a Duration
	if units > most*365.25*24*float64(time.Hour)/float64(unit) {
		return nil, fault.New(fault.Input, "%s: wanted timestamps within %d years, got %s last", c.name, most, short(c.last))
	}
	t := &Trace{Name: c.name, Requests: make([]Request, n), wrongBlocks: wrong}
	for i, a := range c.arrivals {
		t.Requests[i] = a.Request
		t.Requests[i].At = a.at.since(first, unit)
	}
	if s.Span = t.Requests[n-1].At; s.Span > 0 {
		s.Rate = float64(n-1) / s.Span.Seconds()
	}
	if t.Summary = s; c.withIDs > 0 {
		t.BlockTokens = c.blockTokens
	}
	return t, nil
}

// finish does what needs all lines. It returns what users must know of it.
func (c *collector) finish() (notes []string, err error) {
	if c.format == sessions {
		note, err := c.joinTurns()
		if err != nil {
			return nil, err
		}
		notes = append(notes, note, "a delay counts from the arrival of the turn before, since the time of its answer is not known")
	}
	if c.others > 0 {
		notes = append(notes, cli.Count(c.others, "line")+" of other events left out")
	}
	without := 0
	for _, a := range c.arrivals {
		if a.HashIDs == nil {
			without++
		}
	}
	if without > 0 && c.withIDs > 0 {
		notes = append(notes, cli.Count(without, "request")+" without hash ids")
	}
	if c.anyOrder {
		slices.SortStableFunc(c.arrivals, func(a, b arrival) int { return a.at.compare(b.at) })
		c.last = fmt.Sprintf("that of line %d", c.arrivals[len(c.arrivals)-1].Line)
	}
	return notes, nil
}

// decide returns the unit of timestamps that are numbers, whether that is more than an assumption, and whether the
// digits say it. The rate is that of requests per unit.
func (c *collector) decide(o Options, rate float64) (unit string, found, epoch bool) {
	if said := cmp.Or(o.Unit, c.named); said != "" {
		return said, true, false
	}
	if unit := sinceEpoch(c.arrivals[0].at, c.arrivals[len(c.arrivals)-1].at); unit != "" {
		return unit, true, true
	}
	if math.IsInf(rate, 1) || math.IsNaN(rate) { // all at once
		rate = 0
	}
	perSecond := rate * 1000 // if they are milliseconds
	switch {
	case c.format != mooncake:
		if c.unit != "" {
			return c.unit, true, false
		}
	case slices.ContainsFunc(c.arrivals, func(a arrival) bool { return a.at.billionths != 0 }):
	case len(c.arrivals) <= 100 || perSecond <= 1000:
		return "ms", perSecond <= 10, false
	}
	if perSecond > 100 {
		return "s", false, false
	}
	return "ms", false, false
}
