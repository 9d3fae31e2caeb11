package capi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/size"
	"perigee/nixl"
)

// ucxLog is what a log of UCX says of the paths of a process, with UCX_PROTO_INFO=used and UCX_LOG_LEVEL=info.
type ucxLog struct {
	version string // "" if it is not there
	agents  map[string]*nixl.Path
	strange string // the first line of a table that is not of the form known; "" if there is none
	tables  int

	unusable  bool   // it can use none of the transports that it is asked for
	available string // transports of this host, where it lacks one that it is asked for
}

// noTransport says that UCX can use none of the transports of UCX_TLS, of which tls is the value; "" if UCX does not
// say that.
func (l *ucxLog) noTransport(tls string) string {
	if !l.unusable || tls == "" {
		return ""
	}
	text := "UCX_TLS=" + tls + " leaves UCX no transport that it can use"
	if l.available != "" {
		text += "; this host has " + l.available
	}
	return text
}

// The forms that UCX 1.23 writes.
var (
	ucxVersion = regexp.MustCompile(`UCX\s+INFO\s+Version (\S+) `)
	ucxLanes   = regexp.MustCompile(`UCX\s+INFO\s+(\S+) (self|intra-node|inter-node) cfg#\d+ (.*)$`)
	ucxLacks   = regexp.MustCompile(`UCX\s+WARN\s+transports? .* not available, please use one or more of: (.+)$`)
	ucxNone    = regexp.MustCompile(`UCX\s+ERROR\s+no usable transports/devices`)
	ucxTitle   = regexp.MustCompile(`^(\S+) (self|intra-node|inter-node) cfg#\d+$`)
	ucxAccess  = regexp.MustCompile(`^remote memory (?:write by ucp_put|read by ucp_get)\*(?:\([^)]*\))? ` +
		`(?:from|into) (.+) (?:to|from) (\S+)$`)
	ucxFeature = regexp.MustCompile(`\b((?:rma|am)(?:_am)?\([^)]*\))`)
	ucxOneRail = regexp.MustCompile(`^([a-z0-9_]+)/([^\s,/]+)(?:/path\d+)?$`)
	ucxPart    = regexp.MustCompile(`^\d+% on (\S+)$`)
	ucxPaths   = regexp.MustCompile(`^(\S+) \d+% on path\d+(?:(?:, | and )\d+% on path\d+)*$`)
	ucxJoin    = regexp.MustCompile(`, | and `)
)

// reaches are perigee's words for UCX's.
var reaches = map[string]string{"self": nixl.ReachSelf, "intra-node": nixl.ReachHost, "inter-node": nixl.ReachNetwork}

// maxLogLine bounds a line of the log, of which UCX cuts messages at 16 KiB.
const maxLogLine = 64 << 10

// newUCXParser begins to read a log. The tables of transfers look like
//
//	| perigee-1-lane0-1 intra-node cfg#1                              |
//	| remote memory write by ucp_put*(multi) from host memory to host |
//	| Count | Range  | Description |              Config              |
//	|  1010 | 0..inf | zero-copy   | cma/memory                       |
//
// Tables of messages, which have other operations, are passed over.
func newUCXParser() *ucxParser { return &ucxParser{log: &ucxLog{agents: map[string]*nixl.Path{}}} }

// read reads on up to the end of the last line that is whole, and returns how many bytes these lines have.
func (p *ucxParser) read(r io.Reader) (n int64, err error) {
	in := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return n, fmt.Errorf("a line of more than %d bytes", maxLogLine)
		case err != nil:
			return n, err
		}
		n += int64(len(line))
		p.line(string(bytes.ToValidUTF8(bytes.TrimRight(line, "\r\n"), []byte("?"))))
	}
}

// join adds up the agents of each rank, whose names begin alike, so that thousands of them take no more room than one:
// perigee-1-lane0-1 and perigee-1-lane0-2 become perigee-1-.
func (l *ucxLog) join() {
	for name, a := range l.agents {
		parts := strings.SplitN(name, "-", 3)
		if len(parts) < 3 || parts[2] == "" {
			continue
		}
		delete(l.agents, name)
		owner := parts[0] + "-" + parts[1] + "-"
		all := l.agents[owner]
		if all == nil {
			all = &nixl.Path{}
			l.agents[owner] = all
		}
		for _, u := range a.Uses {
			add(all, u)
		}
		for _, lanes := range a.Lanes {
			if !slices.Contains(all.Lanes, lanes) {
				all.Lanes = append(all.Lanes, lanes)
			}
		}
	}
}

// add counts a use with those that differ in nothing else.
func add(p *nixl.Path, u nixl.PathUse) {
	for i := range p.Uses {
		same := p.Uses[i]
		if same.Count = u.Count; same == u {
			p.Uses[i].Count += u.Count
			return
		}
	}
	p.Uses = append(p.Uses, u)
}

// ucxParser stands in a log; title, use and rows are of the table in which it is.
type ucxParser struct {
	log   *ucxLog
	agent *nixl.Path    // whose table it is; nil outside of tables
	use   *nixl.PathUse // what the rows have in common; nil before the second title
	rows  bool          // whether the names of columns were read
	reach string
}

func (p *ucxParser) line(text string) {
	cells, ok := tableCells(text)
	switch {
	case ok && len(cells) == 1 && (p.agent == nil || p.use != nil):
		p.leave()
		p.title(cells[0])
	case ok && p.agent != nil:
		p.row(cells)
	case ok, isSeparator(text):
	default:
		p.leave()
		p.message(text)
	}
}

// tableCells splits a row of a table: what stands between bars, behind the log's prefix.
func tableCells(text string) ([]string, bool) {
	text = strings.TrimRight(text, " ")
	at := strings.Index(text, "| ")
	if at < 0 || !strings.HasSuffix(text, " |") || at+2 >= len(text) || at > 0 && text[at-1] != ' ' {
		return nil, false
	}
	cells := strings.Split(text[at+1:len(text)-1], "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, true
}

func isSeparator(text string) bool {
	at := strings.Index(text, "+-")
	return at >= 0 && strings.Trim(text[at:], "+- ") == ""
}

// leave ends the table, and the strange one that ends before its rows.
func (p *ucxParser) leave() {
	if p.use != nil && !p.rows {
		p.strange("a table without rows")
	}
	p.agent, p.use, p.rows = nil, nil, false
}

func (p *ucxParser) strange(text string) {
	if p.log.strange == "" {
		p.log.strange = text
	}
}

func (p *ucxParser) of(name string) *nixl.Path {
	a := p.log.agents[name]
	if a == nil {
		a = &nixl.Path{}
		p.log.agents[name] = a
	}
	return a
}

func (p *ucxParser) message(text string) {
	if m := ucxVersion.FindStringSubmatch(text); m != nil {
		p.log.version = m[1]
	}
	if m := ucxLacks.FindStringSubmatch(text); m != nil {
		p.log.available = m[1]
	}
	p.log.unusable = p.log.unusable || ucxNone.MatchString(text)
	m := ucxLanes.FindStringSubmatch(text)
	if m == nil {
		return
	}
	lanes := nixl.PathLanes{Reach: reaches[m[2]], Lanes: strings.Join(ucxFeature.FindAllString(m[3], -1), " ")}
	if a := p.of(m[1]); lanes.Lanes != "" && !slices.Contains(a.Lanes, lanes) {
		a.Lanes = append(a.Lanes, lanes)
	}
}

func (p *ucxParser) title(text string) {
	if m := ucxTitle.FindStringSubmatch(text); m != nil {
		p.agent, p.reach = p.of(m[1]), reaches[m[2]]
	}
}

// row takes the second title, the names of the columns or a row.
func (p *ucxParser) row(cells []string) {
	switch {
	case p.use == nil && len(cells) == 1:
		if !strings.HasPrefix(cells[0], "remote memory ") { // messages, atomics
			p.agent = nil
			return
		}
		m := ucxAccess.FindStringSubmatch(cells[0])
		if m == nil {
			p.strange(cells[0])
			p.agent = nil
			return
		}
		op := nixl.Write
		if strings.HasPrefix(cells[0], "remote memory read") {
			op = nixl.Read
		}
		p.use = &nixl.PathUse{Op: op.String(), Local: ucxMemory(m[1]), Remote: ucxMemory(m[2]), Reach: p.reach}
	case p.use != nil && !p.rows && slices.Equal(cells, []string{"Count", "Range", "Description", "Config"}):
		p.rows = true
		p.log.tables++
	case p.rows && len(cells) == 4:
		p.served(cells)
	default:
		p.strange(strings.Join(cells, " | "))
		p.agent, p.use, p.rows = nil, nil, false
	}
}

// served takes a row with the number of operations, their sizes, how they are done, and by what.
func (p *ucxParser) served(cells []string) {
	u := *p.use
	n, err := strconv.ParseUint(cells[0], 10, 32)
	from, to, ok := ucxRange(cells[1])
	if err != nil || !ok || cells[2] == "" {
		p.strange(strings.Join(cells, " | "))
		return
	}
	if n == 0 {
		return
	}
	u.Count, u.MinBytes, u.MaxBytes, u.How = int64(n), from, to, cells[2]
	if how, estimated := strings.CutPrefix(u.How, "(?) "); estimated {
		u.How = how + ", as UCX estimates"
	}
	u.Transport, u.Device = ucxConfig(cells[3])
	if u.Transport == nixl.UnknownTransport {
		p.strange(strings.Join(cells, " | "))
	}
	p.agent.Uses = append(p.agent.Uses, u)
}

// ucxMemory is perigee's word for a kind of memory, such as host memory, cuda/GPU0 or cuda/dev[1], or else UCX's.
func ucxMemory(text string) string {
	text = strings.TrimSuffix(text, " memory")
	text, _, _ = strings.Cut(text[strings.LastIndex(text, " ")+1:], "/") // iov[2] may stand in front
	switch text {
	case "host":
		return nixl.DRAM.String()
	case "cuda":
		return nixl.VRAM.String()
	}
	return text
}

// ucxRange reads sizes such as 0..inf, 16516..inf, 1..8K. No end is 0.
func ucxRange(text string) (from, to int64, ok bool) {
	first, last, several := strings.Cut(text, "..")
	if !several {
		last = first
	}
	if from, ok = ucxBytes(first); !ok || last == "inf" {
		return from, 0, ok && several
	}
	to, ok = ucxBytes(last)
	return from, to, ok && to >= from && to > 0
}

func ucxBytes(text string) (int64, bool) {
	n, err := size.Parse(text)
	return n, err == nil && n >= 0 && n < math.MaxInt64
}

// ucxConfig reads what serves: cma/memory, rc_mlx5/mlx5_0:1/path0, 50% on A and 50% on B, A 50% on path0 and 50% on
// path1. The names are in alphabetical order.
func ucxConfig(text string) (transport, device string) {
	rails := []string{text}
	if m := ucxPaths.FindStringSubmatch(text); m != nil {
		rails[0] = m[1]
	} else if strings.Contains(text, "% on ") {
		rails = ucxJoin.Split(text, -1)
		for i, r := range rails {
			m := ucxPart.FindStringSubmatch(r)
			if m == nil {
				return nixl.UnknownTransport, ""
			}
			rails[i] = m[1]
		}
	}
	var transports, devices []string
	for _, r := range rails {
		m := ucxOneRail.FindStringSubmatch(r)
		if m == nil {
			return nixl.UnknownTransport, ""
		}
		transports, devices = append(transports, m[1]), append(devices, m[2])
	}
	return listOf(transports), listOf(devices)
}

func listOf(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
