package boot

import (
	"bytes"
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

	"perigee/internal/fault"
	"perigee/internal/procfs"
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

// siblingsOf returns nil where ranks cannot be told by their variables.
func siblingsOf(env Environ, launcher string, rank int) *siblings {
	namespace, _ := env("PMIX_NAMESPACE")
	s := &siblings{proc: "/proc", self: procfs.OwnProgram, rank: rank}
	names := []string{"PMIX_NAMESPACE"}
	s.number = "PMIX_RANK"
	if launcher == "slurm" || launcher == "pmi2" || strings.HasPrefix(namespace, "slurm.pmix.") {
		s.number, names = "SLURM_PROCID", []string{"SLURM_JOB_ID", "SLURM_STEP_ID"}
		list, _ := env("SLURM_GTIDS")
		for word := range strings.SplitSeq(list, ",") {
			r, err := strconv.Atoi(word)
			if err != nil {
				s.expected = nil
				break
			}
			s.expected = append(s.expected, r)
		}
	}
	for _, name := range names {
		value, _ := env(name)
		if value == "" {
			return nil
		}
		s.same = append(s.same, name+"="+value)
	}
	return s
}

// absent describes a rank of this host that has not come.
type absent struct {
	rank int
	how  string
}

func (a absent) isZero() bool { return a.rank == 0 }

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

// processes lists the processes of each sibling. Root can read what those of all users say of themselves, and believes
// its own only.
func (s *siblings) processes() map[int][]string {
	dirs, _ := filepath.Glob(filepath.Join(s.proc, "[0-9]*"))
	found := map[int][]string{}
	for _, dir := range dirs {
		if !ownProcess(dir) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // gone
		}
		rank, all := -1, 0
		for kv := range bytes.SplitSeq(data, []byte{0}) {
			if value, ok := bytes.CutPrefix(kv, []byte(s.number+"=")); ok {
				if rank, err = strconv.Atoi(string(value)); err != nil {
					rank = -1
				}
			}
			if slices.Contains(s.same, string(kv)) {
				all++
			}
		}
		here := s.expected == nil || slices.Contains(s.expected, rank)
		if here && rank >= 0 && rank != s.rank && all == len(s.same) {
			found[rank] = append(found[rank], dir)
		}
	}
	return found
}

// ownProcess reports whether a process was started by this user: a program that others may run as this user has the
// variables of those.
func ownProcess(dir string) bool {
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	_, after, _ := strings.Cut(string(status), "\nUid:")
	uids, _, _ := strings.Cut(after, "\n")
	own := strconv.Itoa(os.Geteuid())
	return slices.Equal(strings.Fields(uids), []string{own, own, own, own}) // real, effective, saved, of files
}

// trouble says why a rank with these processes cannot have come; "" if it may have.
func (s *siblings) trouble(dirs []string) string {
	if _, err := os.Stat(s.self); err != nil {
		return ""
	}
	runs, other := false, ""
	for _, dir := range dirs {
		stat, _ := procfs.ReadStat(dir)
		stopped := stat.State == 'T' || stat.State == 't'
		same, err := procfs.Runs(dir, s.self)
		if same && stopped {
			return fmt.Sprintf("it is stopped (process %s)", filepath.Base(dir))
		}
		runs = runs || same
		if err == nil && !same {
			other = fmt.Sprintf("it runs %s (process %s) and not this program", stat.Name, filepath.Base(dir))
			if stopped {
				other = fmt.Sprintf("it is stopped in %s (process %s)", stat.Name, filepath.Base(dir))
			}
		}
	}
	if runs {
		return ""
	}
	return cmp.Or(other, "its process has ended")
}

// describe lists absent ranks.
func describe(missing []absent) string {
	const most = 8
	var parts []string
	for _, a := range missing[:min(len(missing), most)] {
		parts = append(parts, fmt.Sprintf("rank %d: %s", a.rank, a.how))
	}
	if more := len(missing) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more ranks", more))
	}
	return strings.Join(parts, "; ")
}

// lookout looks at the siblings once, before time is up: ranks that give up end at about the same time.
type lookout struct {
	rendezvous
	timer *time.Timer
	found atomic.Pointer[[]absent] // nil until it has looked
}

func (r rendezvous) lookOut(ctx context.Context) *lookout {
	l := &lookout{rendezvous: r}
	if deadline, bounded := ctx.Deadline(); bounded && r.siblings != nil {
		l.timer = time.AfterFunc(time.Until(deadline)*3/4, func() {
			missing, _ := r.siblings.look()
			l.found.Store(&missing)
		})
	}
	return l
}

func (l *lookout) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// blame names the sibling because of which time is up, if there is one.
func (l *lookout) blame(ctx context.Context, err error) error {
	missing, here := l.found.Load(), cmp.Or(l.node, host.Name())
	if missing == nil || !timeIsUp(ctx) || fault.KindOf(err) != fault.Launch {
		return err
	}
	if len(*missing) == 0 && l.oneHost {
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
		Cause: fmt.Sprintf("%s; rank %d waited (%v)", cause, l.rank, err),
	}
}
