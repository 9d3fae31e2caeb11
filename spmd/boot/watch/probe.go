package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee/internal/kit/fault"
)

// probeTime is how long an answer may take, a multiple of countStep. Ranks answer from a
// separate goroutine, so one that computes or waits answers at once.
const probeTime = time.Second

// probeRounds is how often the coordinator asks while several ranks are silent. Some of
// them may only be slow: on a host with more ranks than cores a process may not run for a
// second. A wrong name sends the user to the wrong host.
const probeRounds = 2

// countStep is the unit in which such waits are counted: ticks, of which Go drops those
// that come while this process does not run. So a coordinator that was stopped does not
// take answers that it has not read yet for missing ones.
const countStep = 250 * time.Millisecond

// causeTime is how long the coordinator waits, when all have answered, for ranks that
// name its own process as the cause: it may have been stopped, and have been continued
// only now.
const causeTime = 200 * time.Millisecond

// suspectLocked begins to probe, unless that is under way.
func (c *Coordinator) suspectLocked(f Failure) {
	if !c.probing && !c.closed {
		c.probing = true
		c.serving.Go(func() { c.probe(f) })
	}
}

// probe looks for the cause of a failure and declares it. It runs once: what other ranks
// report in the meantime counts as the same failure.
func (c *Coordinator) probe(f Failure) {
	c.Log.Info("probing silent ranks", "reason", f)
	c.mu.Lock()
	for _, m := range c.members {
		if m != nil {
			m.silent = !m.gone
		}
	}
	c.mu.Unlock()
	for range probeRounds {
		c.call()
		c.listen(probeTime)
		if len(c.silent()) < 2 {
			break
		}
	}
	if len(c.silent()) == 0 {
		select {
		case <-time.After(causeTime):
		case <-c.failed:
		}
	}
	silent := c.silent()
	c.Log.Info("probed", "silent", len(silent), "ranks", places(silent))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(silent) > 0 {
		f = c.causeLocked(silent, f)
	}
	c.failLocked(f)
}

// call sends probe to the silent ranks, and to those that have reported a failure: they
// wait for a verdict, and would take the coordinator for dead.
func (c *Coordinator) call() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m != nil && !m.left && (m.silent || m.gone) {
			m.out.send(message{Is: isProbe})
		}
	}
}

// listen returns when no rank is silent any more, when the job has failed, or after limit.
func (c *Coordinator) listen(limit time.Duration) {
	tick := time.NewTicker(countStep)
	defer tick.Stop()
	for left := limit / countStep; left > 0 && len(c.silent()) > 0; {
		select {
		case <-c.answers:
		case <-tick.C:
			left--
		case <-c.failed:
			return
		}
	}
}

// silent returns the members that have not answered the probe; none when the job has failed.
func (c *Coordinator) silent() (list []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m != nil && m.silent && !m.gone && c.failure == nil {
			list = append(list, m)
		}
	}
	return list
}

// causeLocked describes the failure of ranks that do not answer. f is the failure because
// of which they were probed.
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
		culprit.Cause += fmt.Sprintf("; rank %d timed out waiting (%s)", f.Rank, f.Cause)
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

// places formats at most eight ranks with their hosts: 1 4 on host2, 2 on host3.
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

// ListRanks formats at most eight ranks: 1 2 5 ...
func ListRanks(ranks []int) string {
	const most = 8
	s := strings.Trim(fmt.Sprint(ranks[:min(len(ranks), most)]), "[]")
	if len(ranks) > most {
		s += " ..."
	}
	return s
}
