package spmd

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/spmd/host"
)

var anyCard = rapid.Custom(func(t *rapid.T) card {
	h := rapid.IntRange(0, 5).Draw(t, "host")
	return card{
		HostID: fmt.Sprint("id", h), Host: rapid.StringN(0, 6, 20).Draw(t, "name"), Kernel: []string{"", "", "k1", "k1", "k2", "k2"}[h], CPUs: rapid.SliceOfN(anyRun, 0, 4).Draw(t, "cpus"),
		PID: rapid.IntRange(0, maxNumber).Draw(t, "pid"), SegmentFD: rapid.IntRange(0, 99).Draw(t, "fd"),
		IPs:   rapid.SliceOfN(rapid.SampledFrom([]string{"127.0.0.1", "10.0.0.7", "fe80::1"}), 0, 3).Draw(t, "ips"),
		Quota: host.Quota{MilliCPUs: rapid.SampledFrom([]int{0, 500, 4000}).Draw(t, "quota"), Group: rapid.IntRange(0, 2).Draw(t, "group")},
		Port:  rapid.IntRange(0, maxPort).Draw(t, "port"),
	}
})

var anyRun = rapid.Custom(func(t *rapid.T) cpuRun {
	return cpuRun{rapid.IntRange(0, 300).Draw(t, "first"), rapid.IntRange(0, 20).Draw(t, "count")}
})

// TestRosterSaysWhatTheCardsSaid checks cards and rosters on their way through bytes.
func TestRosterSaysWhatTheCardsSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := rapid.SliceOfN(anyCard, 1, 40).Draw(t, "cards")
		var packed [][]byte
		for _, c := range cards {
			packed = append(packed, c.encode())
		}
		got, err := decodeCards(packed)
		must.Do(t, err)
		r, err := decodeRoster(newRoster(got).encode(), len(cards))
		must.Do(t, err)
		var hosts []string // in the order of their first ranks
		for rank, c := range cards {
			if !slices.Contains(hosts, c.HostID) {
				hosts = append(hosts, c.HostID)
				if s := r.segments[len(hosts)-1]; s.pid != c.PID || s.fd != c.SegmentFD {
					t.Fatalf("host %d: segment %+v, its first card %+v", len(hosts)-1, s, c)
				}
			}
			h := r.hostOf(rank)
			if hosts[h] != c.HostID || r.node(rank).name != c.Host || !slices.Contains(r.hosts[h].Ranks, rank) {
				t.Fatalf("rank %d with card %+v is on host %d of %+v, node %+v", rank, c, h, r.hosts, r.node(rank))
			}
			if diff := cmp.Diff(addresses(c.IPs, c.Port), r.addresses(rank)); diff != "" {
				t.Fatalf("addresses of rank %d: %s", rank, diff)
			}
		}
		for h, id := range hosts {
			seen := map[int]bool{}
			for _, c := range cards {
				for _, run := range c.CPUs {
					for n := range run.count {
						if c.HostID == id {
							seen[run.first+n] = true
						}
					}
				}
			}
			checkMachine(t, r, h, cards)
			if r.hosts[h].CPUs != len(seen) {
				t.Fatalf("host %d: %d CPUs, its cards have %d", h, r.hosts[h].CPUs, len(seen))
			}
		}
	})
}

// checkMachine checks which hosts are said to be one machine with a host.
func checkMachine(t *rapid.T, r *roster, h int, cards []card) {
	kernel := cards[r.hosts[h].Ranks[0]].Kernel
	hosts, ranks, cpus := map[string]bool{}, 0, map[int]bool{}
	for _, c := range cards {
		if c.Kernel != kernel || kernel == "" {
			continue
		}
		hosts[c.HostID] = true
		ranks++
		for _, run := range c.CPUs {
			for n := range run.count {
				cpus[run.first+n] = true
			}
		}
	}
	switch m := r.hosts[h].Machine; {
	case len(hosts) < 2 && m != nil:
		t.Fatalf("host %d is one machine with %+v", h, m)
	case len(hosts) > 1 && (m == nil || len(m.Hosts) != len(hosts) || m.Ranks != ranks || m.CPUs != len(cpus)):
		t.Fatalf("host %d: %+v, want %d hosts, %d ranks, %d CPUs", h, m, len(hosts), ranks, len(cpus))
	}
}

// TestRosterIsSmall checks that what every rank is told of every other is a few bytes.
func TestRosterIsSmall(t *testing.T) {
	const n, perHost = 4096, 8
	cards := make([]card, n)
	for r := range cards {
		h := r / perHost
		cards[r] = card{
			HostID: fmt.Sprintf("%016x", h), Host: fmt.Sprintf("node%04d", h), CPUs: cpuSet{{r % perHost * 8, 8}}, PID: 100000 + r, SegmentFD: 7,
			IPs: []string{fmt.Sprintf("10.0.%d.%d", h>>8, h&255)}, Port: 32768 + r*7919%28232,
		}
	}
	if size := len(newRoster(cards).encode()); size > 10*n {
		t.Errorf("the roster of %d ranks has %d bytes", n, size)
	}
}

func FuzzRoster(f *testing.F) {
	f.Add(newRoster([]card{{HostID: "a", IPs: []string{"::1"}, Port: 9}, {HostID: "b"}}).encode(), 2)
	f.Add(newRoster([]card{{HostID: "a", Host: "n1", IPs: []string{"::1"}, Port: 9}, {HostID: "a", Host: "n2", Port: 8}, {HostID: "b", Host: "n3", PID: 4}, {HostID: "b", Host: "n3", Port: 7}}).encode(), 4)
	f.Add([]byte{1, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0}, 2)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size < 1 || size > 1000 {
			return
		}
		r, err := decodeRoster(data, size)
		if err != nil {
			return
		}
		var ranks []int
		for _, h := range r.hosts {
			ranks = append(ranks, h.Ranks...)
		}
		slices.Sort(ranks)
		if !slices.Equal(ranks, identity(size)) {
			t.Fatalf("the hosts have the ranks %v of %d", ranks, size)
		}
	})
}

func FuzzCard(f *testing.F) {
	f.Add(card{HostID: "a", Host: "b", CPUs: cpuSet{{0, 2}, {64, 2}}, PID: 3, SegmentFD: 4, IPs: []string{"127.0.0.1"}, Port: 5}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeCard(data)
		if err != nil {
			return
		}
		again, err := decodeCard(c.encode())
		if diff := cmp.Diff(c, again, cmp.AllowUnexported(card{}, cpuRun{})); err != nil || diff != "" {
			t.Fatalf("%v: %s", err, diff)
		}
	})
}
