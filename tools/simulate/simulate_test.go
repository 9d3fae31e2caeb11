package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/nixl/engines"
	"perigee/spmd"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func simulated(t must.T, n, perHost int) map[string]Phase {
	patterns, err := synthetic(n)
	must.Do(t, err)
	o, err := Simulate(context.Background(), n, perHost, patterns)
	must.Do(t, err)
	phases := map[string]Phase{}
	for _, p := range o.Phases {
		phases[p.Name] = p
	}
	return phases
}

// rounds is the logarithm to base 2, rounded up.
func rounds(n int) int64 { return int64(bits.Len(uint(n - 1))) }

// TestNoRankSendsMuch holds the two promises for any world: O(log N) messages per
// barrier, O(N) bytes at the start; and what else the documentation says.
func TestNoRankSendsMuch(t *testing.T) {
	for _, perHost := range []int{1, 8, 9} {
		sendsLittle(t, 200, perHost)
	}
	rapid.Check(t, func(t *rapid.T) {
		sendsLittle(t, rapid.IntRange(2, 50).Draw(t, "ranks"), rapid.IntRange(1, 9).Draw(t, "per host"))
	})
}

func sendsLittle(t rapid.TB, n, perHost int) {
	hosts := (n + perHost - 1) / perHost
	p := simulated(t, n, perHost)
	atMost := func(name string, messages, bytes int64) {
		if got := p[name]; got.MaxMessages > messages || got.MaxBytes > bytes {
			t.Fatalf("%s of %d ranks on %d hosts: a rank sends %d messages, %d bytes; want at most %d and %d",
				name, n, hosts, got.MaxMessages, got.MaxBytes, messages, bytes)
		}
	}
	size := int64(n)
	atMost("barrier", rounds(hosts), frameBytes(0)*rounds(hosts))
	if got, want := p["barrier"].TotalMessages, int64(hosts)*rounds(hosts); got != want {
		t.Fatalf("a barrier of %d ranks on %d hosts takes %d messages, want %d", n, hosts, got, want)
	}
	// Three steps along the tree, the clocks with 32 answers per child, a barrier.
	atMost("start", 7+33*rounds(hosts), 2200+frameBytes(8)*33*rounds(hosts)+140*size)
	atMost("launcher", 4, 400)
	atMost("launcher-replies", 5, 600)
	atMost("clocks", 4+32*rounds(hosts), 400+frameBytes(8)*32*rounds(hosts)+80*size)
	atMost("broadcast", 2, 2*frameBytes(scriptBytes))
	atMost("all-gather", 3, 3*frameBytes(0)+100+(pieceBytes+1)*3*size)
	atMost("reduce", 3, 500)
	atMost("end", 3, 3*frameBytes(0))
}

// frameBytes returns how long the frame of a payload of n bytes is.
func frameBytes(n int) int64 {
	bytes, _ := wire.FrameBytes(n)
	return int64(bytes)
}

// TestPrepareReachesOnlyPeers: in a large world with few peers for each rank the
// cards of agents go to those who need them, however many ranks there are.
func TestPrepareReachesOnlyPeers(t *testing.T) {
	for _, n := range []int{256, 512} {
		p := simulated(t, n, 8)["prepare"]
		barriers := 2 * rounds(n/8)              // before memory is taken, and when all are connected
		const reduction, reductionBytes = 3, 600 // the digests of what is prepared
		if p.MaxMessages > fanOut+barriers+reduction ||
			p.MaxBytes > (fanOut+1)*frameBytes(cardBytes(2))+frameBytes(0)*barriers+reductionBytes {
			t.Errorf("%d ranks: %+v", n, p)
		}
	}
}

// A simulation moves no bytes: it needs no memory for those that it counts.
func TestMoreThanAnyMemory(t *testing.T) {
	work, err := synthetic(4)
	must.Do(t, err)
	work.Patterns[0].Matrix, err = matrix.FromRows([][]int64{make([]int64, 4), {0, 0, 1e18, 0}, make([]int64, 4), make([]int64, 4)})
	must.Do(t, err)
	if _, err := Simulate(context.Background(), 4, 2, work); err != nil {
		t.Error(err)
	}
}

// What this machine has no memory for is refused before anything is simulated, whichever of the sizes it is.
func TestMemoryIsChecked(t *testing.T) {
	have := func(there int64, failing error) (string, error) {
		var out bytes.Buffer
		c := Cmd{Ranks: []int{4, 64}, RanksPerHost: 8}
		err := c.run(cli.Streams{Out: &out, Err: &out}, func() (int64, error) { return there, failing })
		return out.String(), err
	}
	work, err := synthetic(64)
	must.Do(t, err)
	want := work.estimate(64)*5/4 + 5
	text, err := have(want-10, nil)
	if fault.KindOf(err) != fault.Resource || text != "" || fault.HintOf(err) == "" ||
		err.Error() != "a simulation of 64 ranks needs about 75.6 MB of memory, and it may have 80 % of 94.6 MB that are available" {
		t.Errorf("got %v, hint %q\n%s", err, fault.HintOf(err), text)
	}
	for _, failing := range []error{nil, errors.New("no such file")} {
		if _, err := have(want, failing); err != nil {
			t.Error(err)
		}
	}
	if _, err := have(0, errors.New("no such file")); err != nil {
		t.Errorf("unknown memory: %v", err)
	}
}

// Patterns are refused while they are read, and a matrix is kept once, whatever its files are called.
func TestMemoryIsCheckedWhileReading(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("m.txt", strings.Repeat(strings.Repeat("1 ", 1024)+"\n", 1024)) // 2^20 cells
	write("copy.txt", strings.Repeat(strings.Repeat("1,", 1023)+"1\n", 1024))
	config := "traffic_patterns:\n- matrix_file: m.txt\n- matrix_file: x/../m.txt\n- matrix_file: copy.txt\n"
	write("c.yaml", config+"- matrix_file: gone.txt\n")
	must.Do(t, os.Mkdir(filepath.Join(dir, "x"), 0o700))
	looks := 0
	_, err := loadWorkload(filepath.Join(dir, "c.yaml"), func() (int64, error) {
		if looks++; looks == 3 {
			return 1 << 30, nil
		}
		return 1 << 40, nil
	})
	if fault.KindOf(err) != fault.Resource || looks != 3 {
		t.Errorf("got %v after %d looks", err, looks)
	}
	write("sparse.txt", "sparse 1048576 0\n")
	write("c.yaml", "traffic_patterns:\n- matrix_file: sparse.txt\n- matrix_file: gone.txt\n")
	if _, err := loadWorkload(filepath.Join(dir, "c.yaml"), func() (int64, error) { return 1 << 40, nil }); fault.KindOf(err) != fault.Resource {
		t.Errorf("a short text of many ranks: %v", err)
	}
	write("c.yaml", config)
	w, err := loadWorkload(filepath.Join(dir, "c.yaml"), func() (int64, error) { return 1 << 40, nil })
	must.Do(t, err)
	for i, p := range w.Patterns {
		if p.Matrix != w.Patterns[0].Matrix {
			t.Errorf("pattern %d has another matrix", i)
		}
	}
}

// Estimates are above what was measured, and not by much where it counts.
func TestEstimate(t *testing.T) {
	dense := func(n, patterns int) *Workload {
		m, err := matrix.AllToAll(n, 8<<10, true)
		must.Do(t, err)
		return &Workload{Patterns: slices.Repeat([]PacedPattern{{Pattern: load.Pattern{Matrix: m}}}, patterns)}
	}
	sparse := func(n int) *Workload {
		w, err := synthetic(n)
		must.Do(t, err)
		return w
	}
	for _, c := range []struct {
		work     *Workload
		ranks    int
		measured int64 // MiB
	}{
		{sparse(1024), 1024, 156}, {sparse(4096), 4096, 711}, {sparse(16384), 16384, 5068},
		{dense(512, 1), 512, 165}, {dense(1024, 1), 1024, 524}, {dense(512, 4), 512, 260},
	} {
		if got := c.work.estimate(c.ranks) >> 20; got < c.measured || got > 2*c.measured {
			t.Errorf("%d ranks: %d MiB, measured %d", c.ranks, got, c.measured)
		}
	}
}

// The descriptors of messages take no memory, however many there are: no message depends on them.
func TestShardsTakeNoMemory(t *testing.T) {
	m, err := matrix.AllToAll(4, 1<<40, true)
	must.Do(t, err)
	work := &Workload{Patterns: []PacedPattern{{Pattern: load.Pattern{Matrix: m, Shards: load.MaxShards}}}, Meet: meetInitiators, Start: startBarrier}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Simulate(context.Background(), 4, 2, work); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*load.MaxShards {
		t.Errorf("took %d bytes", took)
	}
}

// A dense pattern is digested once: where each rank did it, this took N^3 steps, and a copy of the matrix for each rank.
func TestDigestIsShared(t *testing.T) {
	const n = 200
	m := matrix.New(n)
	for i := range n {
		for j := range n {
			must.Do(t, m.Set(i, j, int64(1+i+j)))
		}
	}
	p := PacedPattern{Pattern: load.Pattern{Name: "dense", Matrix: m, Shards: 1}}
	whole := len(p.Digest(nil))
	calls := 0
	s := shared{p, sync.OnceValue(func() []byte { calls++; return p.sum() })}
	for range n {
		if d := s.Digest(nil); len(d) > whole/100 {
			t.Fatalf("a digest of %d bytes, of %d", len(d), whole)
		}
	}
	if calls != 1 {
		t.Errorf("digested %d times", calls)
	}
	for _, start := range []string{startBarrier, startClock} {
		if _, err := Simulate(context.Background(), n, 8, &Workload{Patterns: []PacedPattern{p}, Meet: meetInitiators, Start: start}); err != nil {
			t.Error(err)
		}
	}
}

// More ranks on a host than there are make one host of all.
func TestOneHost(t *testing.T) {
	work, err := synthetic(4)
	must.Do(t, err)
	for _, perHost := range []int{4, 5, 1e9, math.MaxInt} {
		if o, err := Simulate(context.Background(), 4, perHost, work); err != nil || o.Hosts != 1 {
			t.Errorf("%d on each host: %+v, %v", perHost, o, err)
		}
	}
}

// A sum of pauses must be a number: JSON has no other.
func TestLongPauses(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "c.yaml")
	for name, text := range map[string]string{
		"m.txt":  "0 1\n0 0\n",
		"c.yaml": "traffic_patterns:\n- {matrix_file: m.txt, sleep_before_launch_sec: 1e308}\n- {matrix_file: m.txt, sleep_after_launch_sec: 1e308}\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if text, err := command(Cmd{Config: config, Format: "json"}); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "c.yaml:2: traffic_patterns[0].sleep_before_launch_sec: ") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Where one rank fails the others do not wait for it.
func TestFailureEndsAll(t *testing.T) {
	coordinator := watch.NewCoordinator(3, nil)
	defer coordinator.Close()
	c := &crowd{n: 3, worlds: make([]*spmd.World, 3), plans: make([]*session.Session, 3), up: make([]tally, 3), down: make([]tally, 3)}
	defer c.close()
	shared := spmd.NewCrowd(3, 2)
	if err := c.everywhere(coordinator, func(r int) (err error) {
		c.worlds[r], err = c.join(context.Background(), shared, coordinator, r)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	err := c.everywhere(coordinator, func(r int) error {
		if r == 1 {
			return fault.New(fault.Input, "out of order")
		}
		return c.worlds[r].All().Barrier()
	})
	must.Fail(t, err, fault.Input, "out of order")
}

// TestCardsAreAsLongAsReal compares with agents of the library, whose cards grow with the
// interfaces that they may use.
func TestCardsAreAsLongAsReal(t *testing.T) {
	t.Setenv("UCX_NET_DEVICES", "lo")
	engine, _, err := engines.Open("nixl", "", false, "", nixl.Backend{})
	if err != nil {
		t.Fatalf("%v: %s", err, fault.HintOf(err))
	}
	a, err := engine.NewAgent(nixl.AgentConfig{Name: "rank-12", Progress: "poll"})
	must.Do(t, err)
	defer a.Close()
	for buffers := range 4 {
		card, err := a.Card()
		must.Do(t, err)
		if ratio := float64(cardBytes(buffers)) / float64(len(card)); ratio < 0.5 || ratio > 2 {
			t.Errorf("a card with %d buffers has %d bytes, in simulations %d", buffers, len(card), cardBytes(buffers))
		}
		if _, err := a.Alloc(nixl.DRAM, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCountsAreThoseOfTCP lets the same world meet over real links, and compares.
func TestCountsAreThoseOfTCP(t *testing.T) {
	const n = 13
	p := simulated(t, n, 1)["start"]
	sum, mostLinks := meetTCP(t, n)
	if p.TotalMessages != sum.Messages {
		t.Errorf("over TCP %d messages, simulated %+v", sum.Messages, p)
	}
	if sum.Controls > 0 {
		return // on a slow machine ranks ask each other why it takes so long, on separate links
	}
	if p.MaxLinks != mostLinks {
		t.Errorf("over TCP at most %d links, simulated %+v", mostLinks, p)
	}
	// Names of hosts, addresses and process numbers differ in length.
	if ratio := float64(p.TotalBytes) / float64(sum.Bytes); ratio < 0.8 || ratio > 1.25 {
		t.Errorf("over TCP %d bytes, simulated %d", sum.Bytes, p.TotalBytes)
	}
}

// meetTCP makes a world over links, and returns what all its ranks have sent for that, and the most
// links that one has opened.
func meetTCP(t *testing.T, n int) (sum wire.Counts, mostLinks int64) {
	coordinator := watch.NewCoordinator(n, []byte("a secret of thirty-two bytes, ok"))
	defer coordinator.Close()
	counts, errs := make([]wire.Counts, n), make([]error, n)
	var ranks sync.WaitGroup
	for r := range n {
		ranks.Go(func() { counts[r], errs[r] = joinTCP(coordinator, r, n) })
	}
	ranks.Wait()
	for r, c := range counts {
		if errs[r] != nil {
			t.Fatal(errs[r])
		}
		sum.Messages, sum.Controls, sum.Bytes = sum.Messages+c.Messages, sum.Controls+c.Controls, sum.Bytes+c.Bytes
		mostLinks = max(mostLinks, c.Links)
	}
	return sum, mostLinks
}

func joinTCP(coordinator *watch.Coordinator, r, n int) (wire.Counts, error) {
	theirs, ours := net.Pipe()
	coordinator.Serve(theirs, r)
	p, err := boot.Attach(context.Background(), ours, r, n)
	if err != nil {
		return wire.Counts{}, err
	}
	w, err := spmd.Join(context.Background(), p, spmd.Options{HostID: fmt.Sprint(r)})
	if err != nil {
		return wire.Counts{}, err
	}
	sent := w.Wire()
	return sent, w.Close()
}

func command(c Cmd) (string, error) {
	var out bytes.Buffer
	if c.RanksPerHost == 0 {
		c.RanksPerHost = 8
	}
	err := c.Run(cli.Streams{Out: &out, Err: &out})
	return out.String(), err
}

func TestReport(t *testing.T) {
	text, err := command(Cmd{Ranks: []int{2, 64}})
	must.Do(t, err)
	for _, want := range []string{"# perigee ", "# 64 ranks on 8 hosts, 1 pattern: ", "Messages/rank max", "\nbarrier "} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	text, err = command(Cmd{Ranks: []int{16}, RanksPerHost: 4, Format: "json"})
	must.Do(t, err)
	var r report
	must.Do(t, json.Unmarshal([]byte(text), &r))
	if o := r.Runs[0]; r.Schema != "perigee.simulation/1" || o.Ranks != 16 || o.Hosts != 4 || o.Phases[0].Name != "start" || o.Phases[0].TotalMessages == 0 || o.PeakMemory == 0 {
		t.Errorf("%+v", r)
	}
}

func TestOwnPatterns(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("two.txt", "0 1K\n0 0\n")
	write("three.txt", "0 0 1\n0 0 0\n0 0 0\n")
	good := write("good.yaml", "iters: 3\ntraffic_patterns:\n- {matrix_file: two.txt, xfer_op: READ, shards: 2, mem_type: cuda, storage_ops: {0: {file_path: f, file_size: 1M}}, metadata: {isl: 1}}\n- matrix_file: two.txt\n")
	text, err := command(Cmd{Config: good})
	if err != nil || !strings.Contains(text, "# 2 ranks on 1 host") || !strings.Contains(text, "2 patterns") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, c := range []struct {
		cmd  Cmd
		kind fault.Kind
		want string
	}{
		{Cmd{Ranks: []int{1}}, fault.Usage, "cannot simulate 1 ranks: want 2 to 16384"},
		{Cmd{Ranks: []int{16385}}, fault.Usage, "cannot simulate 16385 ranks"},
		{Cmd{Ranks: []int{4}, Config: good}, fault.Usage, "good.yaml is for 2 ranks, not for 4"},
		{Cmd{Config: filepath.Join(dir, "missing.yaml")}, fault.Input, "missing.yaml"},
		{Cmd{Config: write("none.yaml", "iters: 3\n")}, fault.Input, "has no traffic pattern"},
		{Cmd{Config: write("lost.yaml", "traffic_pattern: {matrix_file: lost.txt}\n")}, fault.Input, "lost.txt"},
		{Cmd{Config: write("mixed.yaml", "traffic_patterns:\n- matrix_file: two.txt\n- matrix_file: three.txt\n")}, fault.Input, "mixed.yaml:3: traffic_patterns[1].matrix_file: the matrix is for 3 ranks, the first one for 2"},
		{Cmd{Config: write("shards.yaml", "traffic_pattern: {matrix_file: two.txt, shards: 0}\n")}, fault.Input, "shards is 0"},
	} {
		_, err := command(c.cmd)
		must.Fail(t, err, c.kind, c.want)
	}
}

// The pauses of three patterns of 4 ranks, where the answer follows from who meets: rank 0 sends to 2, then 1 to 2,
// then 0 to 3.
func TestTimeline(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"02.txt": "0 0 1K 0\n0 0 0 0\n0 0 0 0\n0 0 0 0\n", "12.txt": "0 0 0 0\n0 0 1K 0\n0 0 0 0\n0 0 0 0\n",
		"03.txt": "0 0 0 1K\n0 0 0 0\n0 0 0 0\n0 0 0 0\n",
		"c.yaml": "traffic_patterns:\n- {matrix_file: 02.txt, sleep_before_launch_sec: 0.5, sleep_after_launch_sec: 0.25}\n" +
			"- {matrix_file: 12.txt, sleep_before_launch_sec: 1}\n- {matrix_file: 03.txt, sleep_before_launch_sec: 2}\n",
		"store.yaml": "meet: initiators\ntraffic_patterns:\n- {matrix_file: 02.txt, sleep_before_launch_sec: 0.5, storage_ops: {1: {file_path: f}}}\n" +
			"- {matrix_file: 12.txt, sleep_before_launch_sec: 1}\n",
		"read.yaml": "traffic_patterns:\n- {matrix_file: 02.txt, xfer_op: READ, sleep_before_launch_sec: 0.5}\n" +
			"- {matrix_file: 12.txt, xfer_op: READ, sleep_before_launch_sec: 1}\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, c := range []struct {
		config, meet, start string
		want                []float64
	}{
		{"c.yaml", "", "", []float64{0.5, 1, 2.75}}, // ranks 0 and 1 pause at the same time
		{"c.yaml", "initiators", "clock", []float64{0.5, 1, 2.75}},
		{"c.yaml", "all", "", []float64{0.5, 1.75, 2.75}}, // 1 to 2 waits for rank 2
		{"c.yaml", "all", "clock", []float64{0.5, 1.75, 2.75}},
		{"store.yaml", "", "", []float64{0.5, 1.5}}, // rank 1 has a file in the first
		{"read.yaml", "", "", []float64{0.5, 1.5}},  // rank 2 reads both
	} {
		text, err := command(Cmd{Config: filepath.Join(dir, c.config), Meet: c.meet, Start: c.start, Format: "json"})
		must.Do(t, err)
		var r report
		must.Do(t, json.Unmarshal([]byte(text), &r))
		var got []float64
		for _, s := range r.Runs[0].Workload.Starts {
			got = append(got, s.StartS)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s, meet %q: starts %v, want %v", c.config, c.meet, got, c.want)
		}
	}
	text, err := command(Cmd{Config: filepath.Join(dir, "c.yaml")})
	if err != nil || !strings.Contains(text, "# pauses of an iteration, meet: initiators") || !strings.Contains(text, "2.750000") {
		t.Errorf("%v\n%s", err, text)
	}
}

// An iteration sends what its barriers send: two of the world, and one among those that meet, here on 8 hosts.
func TestWorkloadTraffic(t *testing.T) {
	for _, c := range []struct {
		meet, start string
		hosts       int64 // that meet
	}{{meetInitiators, startBarrier, 4}, {meetAll, startBarrier, 8}, {meetAll, startClock, 8}} {
		w, err := synthetic(64)
		must.Do(t, err)
		w.Meet, w.Start = c.meet, c.start
		o, err := Simulate(context.Background(), 64, 8, w)
		must.Do(t, err)
		for _, p := range o.Phases {
			if p.Name != "workload" {
				continue
			}
			want := 2*8*rounds(8) + c.hosts*rounds(int(c.hosts))
			if clocked := c.start == startClock; !clocked && p.TotalMessages != want || clocked && p.TotalMessages <= want {
				t.Errorf("meet %s, start %s: %d messages, want %d and for the clock more", c.meet, c.start, p.TotalMessages, want)
			}
		}
	}
}
