package watch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/version"
)

// A rank of another build ends the job, is named with both builds and hosts, and hears that itself.
func TestOtherBuild(t *testing.T) {
	for _, c := range []struct {
		name string
		says *version.Build
		want string
	}{
		{"another commit", &version.Build{Version: "0.1.0", Commit: "bbbbbbb"}, "rank 1 on node1 is perigee 0.1.0 bbbbbbb, rank 0 on node0 perigee 0.1.0 aaaaaaa"},
		{"changed sources", &version.Build{Version: "0.1.0", Commit: "aaaaaaa", Changed: true}, "rank 1 on node1 is perigee 0.1.0 aaaaaaa-dirty, rank 0 on node0 perigee 0.1.0 aaaaaaa"},
		{"one that does not say", nil, "rank 1 on node1 is perigee of an earlier version, rank 0 on node0 perigee 0.1.0 aaaaaaa"},
		{"another architecture", &version.Build{Version: "0.1.0", Commit: "aaaaaaa", Go: "go1.26 arm64"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			co := newCoordinator(t, 2)
			co.Build, co.Host = version.Build{Version: "0.1.0", Commit: "aaaaaaa"}, "node0"
			first, second := connectTo(t, co, 0), connectTo(t, co, 1)
			own := hello(0, 2)
			own.Build = &co.Build
			first.say(own)
			other := hello(1, 2)
			other.Build = c.says
			second.say(other)
			for who, s := range []*speaker{first, second} {
				m := s.hear()
				if c.want == "" {
					if m.Is != isReady {
						t.Errorf("rank %d heard %+v", who, m)
					}
					continue
				}
				if m.Is != isAbort || m.Failure == nil || m.Failure.Cause != c.want || m.Failure.Kind != fault.Launch ||
					m.Failure.Hint != "install one version of perigee on all hosts" {
					t.Errorf("rank %d heard %+v, %+v", who, m, m.Failure)
				}
			}
		})
	}
}

// A coordinator that does not say its build is told what is wrong, in words that it knows.
func TestEarlierCoordinator(t *testing.T) {
	ours, theirs := pair(t)
	s := &speaker{t: t, conn: theirs}
	heard := make(chan message, 1)
	go func() {
		s.say(message{Is: isSecret})
		var m message
		if err := json.NewDecoder(theirs).Decode(&m); err == nil {
			heard <- m
			s.say(message{Is: isAbort, Failure: m.Failure})
		}
		theirs.Close()
	}()
	self := Self{Rank: 1, Size: 2, Host: "node1", Build: version.Build{Version: "0.1.0", Commit: "aaaaaaa"}}
	_, _, err := NewClient(t.Context(), ours, self, Leader{Name: "rank 0, the coordinator of the job, at 10.0.0.1:7", Reports: true})
	const want = "it is perigee 0.1.0 aaaaaaa, and an earlier one is rank 0, the coordinator of the job, at 10.0.0.1:7"
	f, ok := errors.AsType[Failure](err)
	if !ok || f.Rank != 1 || f.Host != "node1" || f.Kind != fault.Launch || f.Cause != want || !strings.Contains(f.Hint, "one version") {
		t.Errorf("got %+v, want %s", err, want)
	}
	if m := <-heard; m.Is != isAbort || m.Failure == nil || m.Failure.Cause != want {
		t.Errorf("the coordinator heard %+v", m)
	}
}
