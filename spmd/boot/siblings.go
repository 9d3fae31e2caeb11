package boot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/procfs"
	"perigee/spmd/boot/watch"
	"perigee/spmd/host"
)

// A launcher's store does not say which ranks have not come to it. But a rank can look at the other ranks of its host:
// their processes carry the variables by which the launcher has numbered them, and the kernel knows which are stopped.
// Slurm also says which ranks belong here, so that one that has ended is missed.

// siblings are the ranks of this host, apart from this one.
type siblings struct {
	proc, self string
	rank       int
	number     string   // the variable that numbers ranks
	same       []string // KEY=VALUE pairs that all ranks of the job have
	expected   []int    // who belongs here, nil if unknown
}

// siblingsOf returns nil where variables do not say which rank a process is.
func siblingsOf(env Environ, launcher string, rank int) *siblings {
	switch {
	case ofSlurm(env, launcher):
		launcher = "slurm"
	case launcher != "pmix":
		return nil
	}
	names := carriedVariables(env, launcher)
	s := &siblings{proc: "/proc", self: procfs.OwnProgram, rank: rank, number: names[0], same: pairsOf(env, names[1:])}
	if len(s.same) < len(names)-1 {
		return nil
	}
	if launcher == "slurm" {
		s.expected = integers(variable(env, "SLURM_GTIDS"))
	}
	return s
}

// integers reads a list such as 1,2; nil if it is none.
func integers(list string) (numbers []int) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// absent describes a rank of this host that has not come.
type absent struct {
	rank int
	how  string
}

// look returns the siblings that cannot have come: they have ended, are stopped, or run something else than this
// program. first says that of those that have come, this rank included, this is the lowest.
func (s *siblings) look() (missing []absent, first bool) {
	if s == nil {
		return nil, false
	}
	found := s.processes()
	for _, r := range s.expected {
		if _, ok := found[r]; !ok && r != s.rank {
			missing = append(missing, absent{r, "its process has ended"})
		}
	}
	first = true
	for _, r := range slices.Sorted(maps.Keys(found)) {
		if how := s.trouble(found[r]); how != "" {
			missing = append(missing, absent{r, how})
		} else if r < s.rank {
			first = false
		}
	}
	slices.SortFunc(missing, func(a, b absent) int { return cmp.Compare(a.rank, b.rank) })
	return missing, first
}

// processes lists the folders in /proc of the processes of each sibling.
func (s *siblings) processes() map[int][]string {
	dirs, _ := filepath.Glob(filepath.Join(s.proc, "[0-9]*"))
	found := map[int][]string{}
	for _, dir := range dirs {
		its := environOf(dir)
		if !hasAll(its, s.same) {
			continue
		}
		for _, kv := range its {
			number, ok := strings.CutPrefix(kv, s.number+"=")
			rank, err := strconv.Atoi(number)
			here := s.expected == nil || slices.Contains(s.expected, rank)
			if ok && err == nil && here && rank >= 0 && rank != s.rank {
				found[rank] = append(found[rank], dir)
			}
		}
	}
	return found
}

// trouble says why a rank with these processes cannot have come; "" if it may have.
func (s *siblings) trouble(dirs []string) string {
	if _, err := os.Stat(s.self); err != nil {
		return ""
	}
	runs, other := false, "its process has ended"
	for _, dir := range dirs {
		stat, _ := procfs.ReadStat(dir)
		stopped := stat.State == 'T' || stat.State == 't'
		switch same, err := procfs.Runs(dir, s.self); {
		case same && stopped:
			return fmt.Sprintf("it is stopped (process %s)", filepath.Base(dir))
		case same:
			runs = true
		case err == nil && stopped:
			other = fmt.Sprintf("it is stopped in %s (process %s)", stat.Name, filepath.Base(dir))
		case err == nil:
			other = fmt.Sprintf("it runs %s (process %s) and not this program", stat.Name, filepath.Base(dir))
		}
	}
	if runs {
		return ""
	}
	return other
}

// describe lists absent ranks.
func describe(missing []absent) string {
	var parts []string
	for _, a := range missing {
		parts = append(parts, fmt.Sprintf("rank %d: %s", a.rank, a.how))
	}
	return strings.Join(plaintext.First(parts, 8, "%d more ranks"), "; ")
}

// absence looks once which siblings are missing, before time is up: ranks that give up end at about the same time.
type absence struct {
	rendezvous
	timer *time.Timer
	found atomic.Pointer[[]absent] // nil until it has looked
}

// watchSiblings begins to wait for the time to look.
func (r rendezvous) watchSiblings(ctx context.Context) *absence {
	a := &absence{rendezvous: r}
	if deadline, bounded := ctx.Deadline(); bounded && r.siblings != nil {
		a.timer = time.AfterFunc(time.Until(deadline)*3/4, func() {
			missing, _ := r.siblings.look()
			a.found.Store(&missing)
		})
	}
	return a
}

func (a *absence) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// has reports whether a rank was missing when this looked.
func (a *absence) has(rank int) bool {
	missing := a.found.Load()
	return missing != nil && slices.ContainsFunc(*missing, func(m absent) bool { return m.rank == rank })
}

// explain names the missing sibling where time is up.
func (a *absence) explain(ctx context.Context, err error) error {
	missing, here := a.found.Load(), cmp.Or(a.node, host.Name())
	if missing == nil || !timeIsUp(ctx) || fault.KindOf(err) != fault.Launch {
		return err
	}
	if len(*missing) == 0 && a.oneHost {
		return err
	}
	if len(*missing) == 0 {
		return fault.New(fault.Launch, "%w", err).
			WithHint("the other ranks on %s have come, or are about to: look at the other hosts, whose ranks say the same of theirs", here)
	}
	first := (*missing)[0]
	cause := first.how
	if len(*missing) > 1 {
		cause = describe(*missing)
	}
	return watch.Failure{
		Rank: first.rank, Host: here, Phase: "start", Kind: fault.Launch, Alone: true,
		Cause: fmt.Sprintf("%s; rank %d waited (%v)", cause, a.rank, err),
	}
}
