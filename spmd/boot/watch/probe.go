package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee/internal/fault"
)

// A rank that gave up waiting does not know for whom it waited: a barrier only
// counts. And where a network fails, connections end one after the other. So
// before a timeout or a silent connection becomes the job's failure the
// coordinator calls all ranks; those that do not answer are the culprits, be
// they stopped or cut off.

// probeTime is how long an answer may take, a multiple of countStep. It comes from a
// goroutine of its own, so a rank that only computes, or waits itself, answers at once.
const probeTime = time.Second

// probeRounds is how often the coordinator asks as long as several are silent. Of these
// some may only be slow: a host with more ranks than cores can hold up a process for a
// second. Who is named wrongly sends the user to the wrong host.
const probeRounds = 2

// countStep is how such waits are counted: in ticks, of which Go drops those that come
// while this process does not run. What it has not read by then is not held against others.
const countStep = 250 * time.Millisecond

// causeTime is how long the coordinator waits, when all have answered, for ranks
// that blame its own process: it may have been stopped, and go on only now.
const causeTime = 200 * time.Millisecond

// suspectLocked begins a roll call, if none is under way.
func (c *Coordinator) suspectLocked(f Failure) {
	if !c.probing && !c.closed {
		c.probing = true
		c.serving.Go(func() { c.probe(f) })
	}
}

// probe looks for the cause of a failure and declares it. It is probed once;
// what others report meanwhile counts as the same.
func (c *Coordinator) probe(f Failure) {
	c.log.Info("roll call", "because", f)
	c.mu.Lock()
	for _, m := range c.members {
		if m != nil {
			m.silent = !m.gone
		}
	}
	c.mu.Unlock()
	for range probeRounds {
		if c.call(); !c.listen(probeTime) {
			return
		}
		if len(c.silent()) < 2 {
			break
		}
	}
	if len(c.silent()) == 0 {
		select {
		case <-time.After(causeTime):
		case <-c.failed:
			return
		}
	}
	silent := c.silent()
	c.log.Info("the roll is probed", "silent", len(silent), "ranks", places(silent))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(silent) > 0 {
		f = c.causeLocked(silent, f)
	}
	c.failLocked(f)
}

// call calls the silent, and those that have reported a failure: they wait for a word.
func (c *Coordinator) call() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m != nil && !m.left && (m.silent || m.gone) {
			m.out.send(message{Is: isProbe})
		}
	}
}

// listen returns when no rank is silent any more, or limit is over. It returns false if
// the job has failed meanwhile.
func (c *Coordinator) listen(limit time.Duration) bool {
	tick := time.NewTicker(countStep)
	defer tick.Stop()
	for left := limit / countStep; left > 0 && len(c.silent()) > 0; {
		select {
		case <-c.answers:
		case <-tick.C:
			left--
		case <-c.failed:
			return false
		}
	}
	return true
}

// silent returns the members that have not answered the roll call.
func (c *Coordinator) silent() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*member
	for _, m := range c.members {
		if m != nil && m.silent && !m.gone {
			list = append(list, m)
		}
	}
	return list
}

// causeLocked words the failure of ranks that do not answer. f is what made the
// coordinator call them.
func (c *Coordinator) causeLocked(silent []*member, f Failure) Failure {
	first := silent[0]
	culprit := Failure{Rank: first.rank, Host: first.host, Phase: first.phase, Kind: fault.Timeout, Hint: f.Hint}
	doubt := "stopped, or cut off"
	if f.Kind != fault.Timeout {
		culprit.Kind, doubt = fault.RankLost, "cut off, or its host is down"
	}
	who := "it does"
	if len(silent) > 1 {
		who = "ranks " + places(silent) + " do"
	}
	culprit.Cause = who + " not answer: " + doubt
	if own := c.members[0]; own != nil && !own.silent && c.allOthersLocked(silent, own.host) {
		culprit.Rank, culprit.Host, culprit.Phase = own.rank, own.host, own.phase
		culprit.Cause = "this host is cut off from all others, or they are: ranks " + places(silent) + " do not answer"
	}
	if slices.ContainsFunc(silent, func(m *member) bool { return m.rank == f.Rank }) {
		culprit.Cause += " (" + f.Cause + ")"
	} else {
		culprit.Cause += fmt.Sprintf("; rank %d waited in vain (%s)", f.Rank, f.Cause)
	}
	return culprit
}

// allOthersLocked reports whether these are all the ranks of several hosts, all
// but this one.
func (c *Coordinator) allOthersLocked(silent []*member, here string) bool {
	hosts := map[string]bool{}
	for _, m := range silent {
		hosts[m.host] = true
	}
	if hosts[here] || len(hosts) < 2 {
		return false
	}
	for _, m := range c.members {
		if m != nil && m.host != here && !m.silent {
			return false
		}
	}
	return true
}

// places writes at most eight ranks with their hosts: 1 4 on host2, 2 on host3.
func places(members []*member) string {
	const most = 8
	var hosts []string
	ranks := map[string][]int{}
	for _, m := range members[:min(len(members), most)] {
		if ranks[m.host] == nil {
			hosts = append(hosts, m.host)
		}
		ranks[m.host] = append(ranks[m.host], m.rank)
	}
	for i, h := range hosts {
		hosts[i] = ListRanks(ranks[h]) + " on " + h
	}
	text := strings.Join(hosts, ", ")
	if more := len(members) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ListRanks writes at most eight ranks.
func ListRanks(ranks []int) string {
	const most = 8
	s := strings.Trim(fmt.Sprint(ranks[:min(len(ranks), most)]), "[]")
	if len(ranks) > most {
		s += " ..."
	}
	return s
}
