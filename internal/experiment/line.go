package experiment

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"strconv"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/nixl/device"
	"perigee/nixl/engines"
	"perigee/spmd"
)

// reach is what the NICs of a rank allow.
type reach struct {
	NICs    []string           // that share a message
	Rate    float64            // of a message, in bytes per second
	All     map[string]float64 // of each NIC
	Rails   int                // on how many NICs UCX may spread a message
	Unknown string             // why nothing of that is known
}

// oneHost is why a line is not known.
const oneHost = "all ranks are on one host"

// FindLine puts what links between hosts can carry into the result: what the user says, or else the speed of the NICs
// that the ranks may use, at the slowest host. It refuses thresholds against what will not be known. All ranks call it
// before the run.
func (e *Experiment) FindLine() error {
	w := e.World
	if e.LineRate > 0 && w.OneHost() {
		e.Note(engines.Warning + "--line " + e.Job.Line + " is without effect: " + oneHost)
	} else if e.LineRate > 0 && e.Doc != nil {
		e.Doc.Line = &result.Line{Rate: e.LineRate, Host: e.LineRate, From: "--line " + e.Job.Line, Given: true}
	}
	if e.LineRate > 0 || w.OneHost() {
		return e.checkReferences()
	}
	var mine *reach
	if w.LeadsHost() || e.ownDevices() != "" { // each rank may have its own
		mine = new(e.reach())
	}
	ranks, err := spmd.GatherValue(w.All(), 0, mine)
	if err != nil || ranks == nil {
		return err
	}
	e.Doc.Line = slowest(ranks, w.HostOf, w.HostName)
	return e.checkReferences()
}

// ownDevices is UCX_NET_DEVICES of this rank, or what --nic-map puts in its place.
func (e *Experiment) ownDevices() string {
	nics, _ := ParseNICMap(e.Job.NICMap) // which the command line's check has read
	list, _ := nics.Of(e.World.LocalRank())
	return cmp.Or(list, os.Getenv("UCX_NET_DEVICES"))
}

// reach looks at the NICs of this rank.
func (e *Experiment) reach() reach {
	nics, reason := device.Wires(func(name string) string {
		if name == "UCX_NET_DEVICES" {
			return e.ownDevices()
		}
		return os.Getenv(name)
	})
	backend := cmp.Or(e.Job.Backend, "UCX")
	if backend != "UCX" && len(nics) > 1 {
		reason = "only " + backend + " knows which NICs it uses"
	}
	r := reach{Unknown: reason, All: map[string]float64{},
		Rails: rails(os.Getenv("UCX_MAX_RMA_RAILS"), e.Job.BackendParams["engine_config"])}
	if reason != "" {
		return r
	}
	for i, n := range nics {
		rate := float64(n.Mbps) * 1e6 / 8
		r.All[n.Name] = rate
		if i < r.Rails && n.Mbps*leastShare >= nics[0].Mbps {
			r.Rate += rate
			r.NICs = append(r.NICs, n.Name)
		}
	}
	return r
}

// leastShare is how many times as fast as the slowest NIC of a message the fastest may be: UCX_MULTI_LANE_MAX_RATIO,
// whose default is 4.
const leastShare = 4

// rails is on how many NICs UCX may spread a message: UCX_MAX_RMA_RAILS, or the parameter engine_config of NIXL's
// plugin, which has 2 as its default.
func rails(variable, config string) int {
	for _, setting := range strings.Split(config, ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(setting), "MAX_RMA_RAILS="); ok {
			variable = cmp.Or(variable, value)
		}
	}
	if n, err := strconv.Atoi(variable); err == nil && n > 0 {
		return n
	}
	return 2
}

// slowest joins what ranks reach, of which nil says nothing, to that of all: messages need both ends.
func slowest(ranks []*reach, hostOf func(rank int) int, hostName func(rank int) string) *result.Line {
	at, alike := -1, true
	speeds := map[int]map[string]float64{} // of the NICs that any rank may use, by host
	for r, k := range ranks {
		if k == nil {
			continue
		} else if k.Unknown != "" {
			return &result.Line{From: hostName(r) + ": " + k.Unknown}
		}
		if speeds[hostOf(r)] == nil {
			speeds[hostOf(r)] = map[string]float64{}
		}
		maps.Copy(speeds[hostOf(r)], k.All)
		alike = alike && (at < 0 || k.Rate == ranks[at].Rate)
		if at < 0 || k.Rate < ranks[at].Rate {
			at = r
		}
	}
	l := &result.Line{Host: math.Inf(1)}
	for _, nics := range speeds {
		sum := 0.0
		for _, speed := range nics {
			sum += speed
		}
		l.Host = min(l.Host, sum)
	}
	k := ranks[at]
	l.Rate = k.Rate
	l.From = fmt.Sprintf("%s, %g Gb/s", strings.Join(k.NICs, " + "), k.Rate*8/1e9)
	if len(k.NICs) > 1 {
		l.From += fmt.Sprintf(" by at most %d rails", k.Rails)
	}
	if !alike {
		l.From += fmt.Sprintf(" at %s, the slowest of %s", hostName(at), cli.Count(len(speeds), "host"))
	}
	return l
}

// checkReferences refuses thresholds against a line or a ceiling that is not known in the end.
func (e *Experiment) checkReferences() error {
	if e.Doc == nil {
		return nil
	}
	for _, t := range e.Thresholds {
		rate, why := e.Doc.Line.By(t.Of)
		switch {
		case t.Of == result.ByLine && rate == 0 && e.World.OneHost():
			return fault.New(fault.Usage, "the threshold %s: the line is not known: %s", t, oneHost).
				WithHint("--ceiling and a threshold such as > 0.9 * ceiling compare with one large message")
		case t.Of == result.ByLine && rate == 0:
			return fault.New(fault.Usage, "the threshold %s: the line is not known: %s", t, why).
				WithHint("say what a link carries, as --line 200Gbit; or --ceiling and a threshold such as > 0.9 * ceiling")
		case t.Of == result.ByCeiling && !e.Job.Ceiling:
			return fault.New(fault.Usage, "the threshold %s: the ceiling is not measured", t).
				WithHint("--ceiling measures it, after the run")
		}
	}
	return nil
}

// compareLine prints how near messages have come to the line and the ceiling.
func (e *Experiment) compareLine() {
	if e.Doc == nil {
		return
	}
	if text := e.Doc.LineText(); text != "" {
		io.WriteString(e.Out, Comment("line: "+text))
	}
}
