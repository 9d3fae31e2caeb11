package load

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl"
)

// drawSchedule draws a schedule of transfers between ranks, and a pool that may be small.
func drawSchedule(t *rapid.T, ranks int) Schedule {
	size := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(4000, 9000), rapid.Just(int64(2*Guard)))
	transfers := make([][]Part, rapid.IntRange(0, 12).Draw(t, "transfers"))
	due := make([]int64, len(transfers))
	for i := range transfers {
		due[i] = int64(i / 2)
		for from := range ranks {
			for to := range ranks {
				if !rapid.Bool().Draw(t, "part") {
					continue
				}
				p := Part{From: from, To: to}
				for range rapid.IntRange(1, 3).Draw(t, "runs") {
					p.Runs = append(p.Runs, DescriptorRun{rapid.Int64Range(1, 4).Draw(t, "count"), size.Draw(t, "bytes")})
				}
				transfers[i] = append(transfers[i], p)
			}
		}
	}
	return Schedule{
		Op: rapid.SampledFrom([]nixl.Op{nixl.Read, nixl.Write}).Draw(t, "op"), Due: due,
		Parts: func(list []Part, k int) []Part { return append(list, transfers[k]...) },
		Pool:  rapid.SampledFrom([]int64{0, 400 << 10, 1 << 20}).Draw(t, "pool"),
	}
}

// Within a lap no two parts of a rank share a byte, all lie within what the rank needs and the pool has, and what has a
// page and more begins at a page. Each part is posted once, and its descriptors are those of the messages at both ends.
func TestScheduleLaysPartsApart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const ranks = 3
		s, err := NewSchedule(drawSchedule(rt, ranks), ranks)
		must.Do(rt, err)
		needs := s.Needs(ranks, 0)
		laps := s.Laps()
		if laps[0] != 0 || laps[len(laps)-1] != len(s.Due) || !slices.IsSorted(laps) {
			rt.Fatalf("laps %v of %d transfers", laps, len(s.Due))
		}
		for i, end := range laps[1:] {
			lap := s.Between(laps[i], end)
			messages := [2]map[[3]int][]nixl.Desc{{}, {}}
			for rank := range ranks {
				sent, received := lap.Messages(rank, 0)
				for side, list := range [2][]Message{sent, received} {
					room := [2]int64{needs[rank].Send[0], needs[rank].Recv[0]}[side]
					if s.Pool > 0 && room > s.Pool {
						rt.Fatalf("rank %d needs %d bytes of a pool of %d", rank, room, s.Pool)
					}
					checkApart(rt, list, room)
					for _, m := range list {
						messages[side][[3]int(m.Key)] = m.Pieces
					}
				}
			}
			checkPosts(rt, lap, ranks, messages)
		}
	})
}

func checkApart(t *rapid.T, list []Message, room int64) {
	var all []nixl.Desc
	for _, m := range list {
		if m.Bytes() >= Guard && m.Pieces[0].Off%Guard != 0 {
			t.Fatalf("%v does not begin at a page", m)
		}
		all = append(all, m.Pieces...)
	}
	slices.SortFunc(all, func(a, b nixl.Desc) int { return cmp.Compare(a.Off, b.Off) })
	var free int64
	for _, d := range all {
		if d.Off < free || d.Off+d.Len > room {
			t.Fatalf("%v lies not between %d and %d", d, free, room)
		}
		free = d.Off + d.Len
	}
}

// checkPosts compares what ranks post with messages, by Side and key.
func checkPosts(t *rapid.T, s Schedule, ranks int, messages [2]map[[3]int][]nixl.Desc) {
	posted := 0
	for rank := range ranks {
		posts, own := s.Posts(nil, rank, 0), s.Own(rank)
		for k := range own.Len() {
			for _, x := range own.Transfers(k) {
				key, at := [3]int{own.Number(k), rank, x.Peer}, [2][]nixl.Desc{x.LocalAt, x.RemoteAt}
				if s.Op == nixl.Read {
					key[1], key[2] = key[2], key[1]
					at[Send], at[Recv] = at[Recv], at[Send]
				}
				for side := range at {
					if got, want := joined(at[side]), joined(messages[side][key]); !slices.Equal(got, want) {
						t.Fatalf("transfer %v posts %v, the message is %v", key, got, want)
					}
				}
				var bytes int64
				for i, d := range x.LocalAt {
					bytes += d.Len
					if x.RemoteAt[i].Len != d.Len {
						t.Fatalf("%v and %v", d, x.RemoteAt[i])
					}
				}
				if want := (Post{s.Op, x.Peer, bytes}); posts[0] != want {
					t.Fatalf("post %v, want %v", posts[0], want)
				}
				posts = posts[1:]
				posted++
			}
		}
		if len(posts) > 0 {
			t.Fatalf("rank %d has posts without transfers: %v", rank, posts)
		}
	}
	if posted != len(messages[Send]) || posted != len(messages[Recv]) {
		t.Fatalf("%d posts, %d messages sent and %d received", posted, len(messages[Send]), len(messages[Recv]))
	}
}

// joined joins descriptors that touch.
func joined(list []nixl.Desc) (out []nixl.Desc) {
	for _, d := range list {
		if n := len(out); n > 0 && out[n-1].Off+out[n-1].Len == d.Off {
			out[n-1].Len += d.Len
			continue
		}
		out = append(out, d)
	}
	return out
}

// A prefill rank sends to two decode ranks, which fetch: the places and the laps are those worked out by hand.
func TestScheduleByHand(t *testing.T) {
	transfers := [][]Part{
		{{0, 1, []DescriptorRun{{2, 100}}}},           // sent from 0, received at 0
		{{0, 2, []DescriptorRun{{1, 10}, {2, 5000}}}}, // begins at the next page; its descriptors of 5000 at pages
		{{0, 1, []DescriptorRun{{1, 50}}}},            // right behind
		{{0, 1, []DescriptorRun{{1, 8000}}}},          // does not fit behind: a lap begins
	}
	s, err := NewSchedule(Schedule{
		Op: nixl.Read, Due: []int64{0, 0, 5, 9}, Pool: 28 << 10,
		Parts: func(list []Part, k int) []Part { return append(list, transfers[k]...) },
	}, 3)
	must.Do(t, err)
	if laps := s.Laps(); !slices.Equal(laps, []int{0, 3, 4}) {
		t.Errorf("laps %v", laps)
	}
	own := s.Own(1)
	if own.Len() != 3 || own.Number(1) != 2 || own.Bytes(0) != 200 || s.Own(0).Len() != 0 {
		t.Errorf("rank 1 posts %d, rank 0 posts %d", own.Len(), s.Own(0).Len())
	}
	end := int64(16384 + 5000)
	if got := own.Transfers(1)[0]; got.Peer != 0 || got.RemoteAt[0] != (nixl.Desc{Off: end, Len: 50}) ||
		got.LocalAt[0] != (nixl.Desc{Off: 200, Len: 50}) {
		t.Errorf("%+v, want it from %d on", got, end)
	}
	if got := s.Own(2).Transfers(0)[0].RemoteAt; !slices.Equal(got, []nixl.Desc{{Off: 4096, Len: 10},
		{Off: 8192, Len: 5000}, {Off: 16384, Len: 5000}}) {
		t.Errorf("%v", got)
	}
	if got := own.Transfers(2)[0]; got.RemoteAt[0].Off != 0 || got.LocalAt[0].Off != 0 {
		t.Errorf("the second lap begins at %+v", got)
	}
}

// Equal keys are equal transfers.
func TestScheduleKeys(t *testing.T) {
	transfers := []DescriptorRun{{2, 8}, {2, 8}, {1, 16}, {2, 8}}
	s, err := NewSchedule(Schedule{
		Due: make([]int64, 4), Pool: 16,
		Parts: func(list []Part, k int) []Part { return append(list, Part{0, 1, transfers[k : k+1]}) },
	}, 2)
	must.Do(t, err)
	own := s.Own(0)
	first, n := own.Key(nil, 0)
	if n != 2 {
		t.Errorf("%d descriptors", n)
	}
	for k, same := range []bool{true, true, false, true} {
		if key, _ := own.Key(nil, k); (string(key) == string(first)) != same {
			t.Errorf("key %d: %x, the first is %x", k, key, first)
		}
	}
}

func TestScheduleRefuses(t *testing.T) {
	one := func(p ...Part) func([]Part, int) []Part {
		return func(list []Part, _ int) []Part { return append(list, p...) }
	}
	for _, parts := range [][]Part{{{0, 1, []DescriptorRun{{10, 1}}}}, {{0, 1, []DescriptorRun{{5, 1}}}, {1, 1, []DescriptorRun{{5, 1}}}}} {
		_, err := NewSchedule(Schedule{Due: []int64{0}, Pool: 9, Parts: one(parts...)}, 2)
		if err == nil || fault.KindOf(err) != fault.Input ||
			!strings.Contains(err.Error(), "a pool of 9 bytes cannot hold transfer 0 at a rank: wanted at least 10,") {
			t.Errorf("%v: %v", parts, err)
		}
	}
	if err := (Schedule{}).Check(2); fault.KindOf(err) != fault.Script {
		t.Errorf("%v", err)
	}
	s, _ := NewSchedule(Schedule{Due: []int64{0}, Parts: one(Part{0, 1, []DescriptorRun{{1, DefaultPool + 1}}})}, 2)
	if got := s.Needs(2, 0)[1].Recv[nixl.DRAM]; got != DefaultPool+1 {
		t.Errorf("a transfer larger than the usual pool has %d bytes", got)
	}
}

// The least pool holds every transfer, and one byte less does not.
func TestLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t, 3)
		s.Pool = s.Least(3)
		if s.Pool == 0 {
			t.Skip("nothing moves")
		}
		if _, err := NewSchedule(s, 3); err != nil {
			t.Fatalf("of %d bytes: %v", s.Pool, err)
		}
		if s.Pool--; s.Pool > 0 {
			if _, err := NewSchedule(s, 3); err == nil {
				t.Fatalf("%d bytes are enough", s.Pool)
			}
		}
	})
}

// Schedules that differ in a due time, a rank or a descriptor have different digests.
func TestScheduleDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []struct {
		due  int64
		part Part
	}{{0, Part{0, 1, []DescriptorRun{{2, 4}}}}, {1, Part{0, 1, []DescriptorRun{{2, 4}}}}, {0, Part{1, 0, []DescriptorRun{{2, 4}}}}, {0, Part{0, 1, []DescriptorRun{{4, 2}}}}} {
		made, err := NewSchedule(Schedule{
			Due: []int64{s.due}, Parts: func(list []Part, _ int) []Part { return append(list, s.part) },
		}, 2)
		must.Do(t, err)
		seen[string(made.Digest(nil))] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d digests of 4 schedules", len(seen))
	}
}

// BenchmarkSchedule places 12,000 transfers of 8 parts between 16,384 ranks, and works out who does what.
func BenchmarkSchedule(b *testing.B) {
	const ranks, count, tp = 16384, 12000, 8
	rng := rand.New(rand.NewPCG(1, 2))
	from, to := rng.Perm(count), rng.Perm(count)
	runs := []DescriptorRun{{80, 1 << 20}}
	for b.Loop() {
		s, err := NewSchedule(Schedule{Op: nixl.Read, Due: make([]int64, count), Parts: func(list []Part, t int) []Part {
			for k := range tp {
				list = append(list, Part{from[t]%1024*tp + k, 8192 + to[t]%1024*tp + k, runs})
			}
			return list
		}}, ranks)
		must.Do(b, err)
		RolesOf([]Load{s}, ranks, func(Lane, int, int) {})
	}
}
