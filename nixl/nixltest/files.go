package nixltest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// filer is an agent with memory and a folder.
type filer struct {
	t      *testing.T
	agent  nixl.Agent
	memory nixl.Buffer
	folder string
}

// newFiler makes an agent with one buffer of memory and a folder, for transfers with files.
func newFiler(t *testing.T, s Setup, api string, size int64) *filer {
	t.Helper()
	engine, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.Config
	cfg.Name, cfg.FileAPI = fmt.Sprintf("filer-%d-%d", os.Getpid(), agents.Add(1)), api
	f := &filer{t: t, folder: t.TempDir()}
	if f.agent, err = engine.NewAgent(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.agent.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if f.memory, err = f.agent.Alloc(nixl.DRAM, size); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *filer) path(name string) string { return filepath.Join(f.folder, name) }

// open opens a file that must work.
func (f *filer) open(file nixl.File) nixl.Buffer {
	f.t.Helper()
	b, err := f.agent.OpenFile(file)
	if err != nil {
		f.t.Fatalf("%v\n%s", err, fault.HintOf(err))
	}
	return b
}

// run prepares, runs and releases transfers, and returns the stamps.
func (f *filer) run(transfers ...nixl.Transfer) (nixl.Times, error) {
	b, err := f.agent.NewBatch(transfers)
	if err != nil {
		return nixl.Times{}, err
	}
	defer b.Release()
	times := stamps(1, len(transfers))
	before := clock.Now()
	err = b.Run(nixl.Control{Deadline: clock.Now() + int64(patience)}, 1, times)
	if err == nil && b.Prep() <= 0 {
		f.t.Errorf("preparing took %d ns", b.Prep())
	}
	if s := times[0]; err == nil && (s.Start < before || s.Posted < s.Start || s.End < s.Posted ||
		s.Done[0] < s.Start || s.Done[0] > s.End) {
		f.t.Errorf("stamps %+v are not in order", s)
	}
	return times[0], err
}

// fill puts noise into a buffer and returns it.
func (f *filer) fill(b nixl.Buffer, seed uint64) []byte {
	f.t.Helper()
	data := noise(int(b.Size()), seed, 5)
	if _, err := b.WriteAt(data, 0); err != nil {
		f.t.Fatal(err)
	}
	return data
}

// expect compares a buffer with what it should hold.
func (f *filer) expect(what string, b nixl.Buffer, want []byte) {
	f.t.Helper()
	got := make([]byte, b.Size())
	if _, err := b.ReadAt(got, 0); err != nil {
		f.t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		f.t.Fatalf("%s: wrong bytes", what)
	}
}

func testFiles(t *testing.T, s Setup, api string) {
	t.Run("Shapes", func(t *testing.T) { testFileShapes(t, s, api) })
	t.Run("Direct", func(t *testing.T) { testDirect(t, s, api) })
	t.Run("OwnFilesVanish", func(t *testing.T) { testOwnFiles(t, s, api) })
	t.Run("Refusals", func(t *testing.T) { testFileRefusals(t, s, api) })
	t.Run("ShrunkFile", func(t *testing.T) { testShrunkFile(t, s, api) })
	t.Run("MixedBatch", func(t *testing.T) { testMixedBatch(t, s, api) })
	t.Run("FullDisk", func(t *testing.T) { testFullDisk(t, s, api) })
	t.Run("ManyDescriptors", func(t *testing.T) { testManyDescriptors(t, s, api) })
}

// testFileShapes moves one and many descriptors of odd sizes and places, in both directions.
func testFileShapes(t *testing.T, s Setup, api string) {
	const size = 600_011
	f := newFiler(t, s, api, size)
	file := f.open(nixl.File{Path: f.path("a"), Size: size, Make: true})
	if file.Mem() != nixl.FILE || file.Size() != size || file.Bytes() != nil {
		t.Errorf("buffer %v of %d bytes", file.Mem(), file.Size())
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, count := range []int{1, 2, 17, 256, 257, 5000} {
		for _, op := range ops {
			memory, disk := f.fill(f.memory, uint64(count)), f.fill(file, uint64(count)+1)
			tr := nixl.Transfer{Op: op, Peer: nixl.Self, LocalBuffer: f.memory.ID(), RemoteBuffer: file.ID()}
			tr.Local, tr.Remote = spread(rng, count, size, size)
			if _, err := f.run(tr); err != nil {
				t.Fatalf("%s of %d descriptors: %v", op, count, err)
			}
			for k, l := range tr.Local {
				here, there := memory[l.Off:l.Off+l.Len], disk[tr.Remote[k].Off:][:l.Len]
				if op == nixl.Read {
					copy(here, there)
				} else {
					copy(there, here)
				}
			}
			f.expect("memory", f.memory, memory)
			f.expect("file", file, disk)
		}
	}
}

// testDirect moves whole pages past the page cache, where the file system allows it, and expects a
// clear refusal for crooked ones, and where it does not.
func testDirect(t *testing.T, s Setup, api string) {
	const size = 1 << 20
	f := newFiler(t, s, api, size)
	file, err := f.agent.OpenFile(nixl.File{Path: f.path("a"), Size: size, Make: true, Direct: true})
	if err != nil {
		wantRefusal(t, "direct I/O", err, fault.Resource, f.path("a"), "direct I/O")
		return
	}
	memory := f.fill(f.memory, 1)
	tr := whole(nixl.Write, nixl.Self, f.memory.ID(), file.ID(), size)
	if _, err := f.run(tr); err != nil {
		t.Fatal(err)
	}
	f.expect("file", file, memory)
	disk := f.fill(file, 2)
	tr.Op = nixl.Read
	if _, err := f.run(tr); err != nil {
		t.Fatal(err)
	}
	f.expect("memory", f.memory, disk)
	for _, d := range []nixl.Desc{{Off: 1, Len: 4096}, {Off: 0, Len: 100}} {
		tr.Local, tr.Remote = []nixl.Desc{d}, []nixl.Desc{d}
		_, err := f.agent.NewBatch([]nixl.Transfer{tr})
		wantRefusal(t, "crooked", err, fault.Input, f.path("a"), "direct I/O", "multiples of")
	}
}

// testOwnFiles looks for files that were made: they have no name, even while they are used.
func testOwnFiles(t *testing.T, s Setup, api string) {
	f := newFiler(t, s, api, 10)
	f.open(nixl.File{Path: f.path("a"), Size: 10, Make: true})
	_, err := f.agent.OpenFile(nixl.File{Path: f.path("b"), Size: 1 << 60, Make: true})
	wantRefusal(t, "an enormous file", err, fault.Resource, f.path("b"), "no space left on device")
	if left, _ := os.ReadDir(f.folder); len(left) > 0 {
		t.Errorf("in the folder: %v", left)
	}
}

// wantRefusal checks that an error has a kind and says certain words: users see the text, and scripts the exit code
// that follows from the kind.
func wantRefusal(t *testing.T, what string, err error, kind fault.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	if fault.KindOf(err) != kind {
		t.Errorf("%s: %v is of kind %v, want %v", what, err, fault.KindOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

// testFileRefusals opens and transfers with invalid arguments.
func testFileRefusals(t *testing.T, s Setup, api string) {
	f := newFiler(t, s, api, 100)
	for name, data := range map[string]string{"there": "0123456789", "read-only": "0123456789"} {
		if err := os.WriteFile(f.path(name), []byte(data), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(f.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		file nixl.File
		word string
	}{
		{"missing", nixl.File{Path: f.path("none"), Size: 1}, "no such file"},
		{"folder", nixl.File{Path: f.folder, Size: 1}, "is a folder"},
		{"pipe", nixl.File{Path: f.path("pipe"), Size: 1}, "neither a regular file"},
		{"short", nixl.File{Path: f.path("there"), Size: 11}, "has 10 bytes, the transfers need 11"},
		{"size 0", nixl.File{Path: f.path("there"), Size: 0}, "want at least 1"},
		{"exists", nixl.File{Path: f.path("there"), Size: 5, Make: true}, "exists already"},
		{"no folder", nixl.File{Path: f.path("no/file"), Size: 5, Make: true}, "no such file"},
	} {
		_, err := f.agent.OpenFile(c.file)
		wantRefusal(t, c.what, err, fault.Input, c.file.Path, c.word)
	}
	if got, err := os.ReadFile(f.path("there")); err != nil || string(got) != "0123456789" {
		t.Errorf("the file was changed: %q, %v", got, err)
	}
	file := f.open(nixl.File{Path: f.path("read-only"), Size: 10})
	if _, err := f.run(whole(nixl.Read, nixl.Self, f.memory.ID(), file.ID(), 10)); err != nil {
		t.Errorf("reading a file that is open for reading: %v", err)
	}
	for what, tr := range map[string]nixl.Transfer{
		"beyond the end":  whole(nixl.Read, nixl.Self, f.memory.ID(), file.ID(), 11),
		"memory as file":  whole(nixl.Read, nixl.Self, f.memory.ID(), f.memory.ID(), 10),
		"file as memory":  whole(nixl.Read, nixl.Self, file.ID(), file.ID(), 10),
		"no such buffer":  whole(nixl.Read, nixl.Self, f.memory.ID(), 9, 10),
		"negative buffer": whole(nixl.Read, nixl.Self, -1, file.ID(), 10),
	} {
		if _, err := f.agent.NewBatch([]nixl.Transfer{tr}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	// A peer, even the agent as its own peer, cannot reach a file.
	card, err := f.agent.Card()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.agent.AddPeer(0, card); err != nil {
		t.Fatal(err)
	}
	if _, err := f.agent.NewBatch([]nixl.Transfer{whole(nixl.Read, 0, f.memory.ID(), file.ID(), 10)}); err == nil {
		t.Error("a peer reaches a file")
	}
}

// testShrunkFile reads beyond the end of a file that has become shorter.
func testShrunkFile(t *testing.T, s Setup, api string) {
	const size = 100_000
	f := newFiler(t, s, api, size)
	if err := os.WriteFile(f.path("a"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	file := f.open(nixl.File{Path: f.path("a"), Size: size})
	if err := os.Truncate(f.path("a"), 10); err != nil {
		t.Fatal(err)
	}
	_, err := f.run(whole(nixl.Read, nixl.Self, f.memory.ID(), file.ID(), size))
	wantRefusal(t, "a file that became shorter", err, fault.Resource, f.path("a"),
		"it has 10 bytes, and the transfers need 100000")
}

// testFullDisk writes to files with holes: space for them is found missing when they are opened, or else
// the transfer that needs it fails, and says why.
func testFullDisk(t *testing.T, s Setup, api string) {
	const size = 100_000
	f := newFiler(t, s, api, size)
	disk := f.path("disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatalf("this test needs the capability CAP_SYS_ADMIN, to mount a small file system "+
			"(docker run --cap-add SYS_ADMIN): %v", err)
	}
	t.Cleanup(func() {
		// The agent is closed later, and keeps files open.
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(disk, "holes")
	hollow := func() {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	hollow()
	_, err := f.agent.OpenFile(nixl.File{Path: path, Size: 1 << 20, Write: true})
	wantRefusal(t, "more holes than disk", err, fault.Resource, path, "1.0 MiB of it were never written",
		"no space left on device", "512.0 KiB are free")
	file := f.open(nixl.File{Path: path, Size: size, Write: true})
	// Another process makes the holes again, and takes the space.
	hollow()
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = f.run(whole(nixl.Write, nixl.Self, f.memory.ID(), file.ID(), size))
	wantRefusal(t, "a full disk", err, fault.Resource, path, "its file system is full")
}

// testMixedBatch moves memory to a peer and to two files in one batch.
func testMixedBatch(t *testing.T, s Setup, api string) {
	const size = 50_000
	f := newFiler(t, s, api, size)
	second, err := f.agent.Alloc(nixl.DRAM, size)
	if err != nil {
		t.Fatal(err)
	}
	one, two := f.open(nixl.File{Path: f.path("1"), Size: size, Make: true}), f.open(nixl.File{Path: f.path("2"),
		Size: size, Make: true})
	card, err := f.agent.Card()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.agent.AddPeer(0, card); err != nil {
		t.Fatal(err)
	}
	memory := f.fill(f.memory, 1)
	f.fill(second, 2)
	if _, err := f.run(
		whole(nixl.Write, nixl.Self, f.memory.ID(), one.ID(), size),
		whole(nixl.Write, 0, f.memory.ID(), second.ID(), size),
		whole(nixl.Write, nixl.Self, f.memory.ID(), two.ID(), size),
	); err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string]nixl.Buffer{"memory": second, "first file": one, "second file": two} {
		f.expect(what, b, memory)
	}
}

// testManyDescriptors moves 100,000 descriptors to each of two files and as many to a peer, in one batch.
func testManyDescriptors(t *testing.T, s Setup, api string) {
	const count, each = 100_000, 8
	f := newFiler(t, s, api, count*each)
	second, err := f.agent.Alloc(nixl.DRAM, count*each)
	if err != nil {
		t.Fatal(err)
	}
	one, two := f.open(nixl.File{Path: f.path("1"), Size: count * each,
		Make: true}), f.open(nixl.File{Path: f.path("2"), Size: count * each, Make: true})
	card, err := f.agent.Card()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.agent.AddPeer(0, card); err != nil {
		t.Fatal(err)
	}
	// In the memory from the front, at the other end from the back.
	here, there := make([]nixl.Desc, count), make([]nixl.Desc, count)
	for k := range here {
		here[k], there[k] = nixl.Desc{Off: int64(k) * each, Len: each}, nixl.Desc{Off: int64(count-1-k) * each,
			Len: each}
	}
	list := []nixl.Transfer{
		{Op: nixl.Write, Peer: nixl.Self, LocalBuffer: f.memory.ID(), RemoteBuffer: one.ID(), Local: here,
			Remote: there},
		{Op: nixl.Write, Peer: 0, LocalBuffer: f.memory.ID(), RemoteBuffer: second.ID(), Local: here, Remote: there},
		{Op: nixl.Write, Peer: nixl.Self, LocalBuffer: f.memory.ID(), RemoteBuffer: two.ID(), Local: here,
			Remote: there},
	}
	memory := f.fill(f.memory, 1)
	times, err := f.run(list...)
	if err != nil {
		t.Fatal(err)
	}
	for i, done := range times.Done {
		if done < times.Start || done > times.End {
			t.Errorf("transfer %d is complete at %d, the run was from %d to %d", i, done, times.Start, times.End)
		}
	}
	back := make([]byte, 0, len(memory))
	for _, d := range there {
		back = append(back, memory[d.Off:d.Off+d.Len]...)
	}
	for what, b := range map[string]nixl.Buffer{"memory": second, "first file": one, "second file": two} {
		f.expect(what, b, back)
	}
	b, err := f.agent.NewBatch(list)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if b.Len() != 3 || b.Bytes() != 3*count*each {
		t.Errorf("a batch of %d transfers and %d bytes", b.Len(), b.Bytes())
	}
	// Posted, and given up while most of it was not handed over.
	if err := b.Post(); err != nil {
		t.Fatal(err)
	}
	late, ok := errors.AsType[*nixl.TimeoutError](b.Wait(nixl.Control{Deadline: 1}, nil))
	if !ok || len(late.Peers) == 0 || late.Peers[0] != nixl.Self {
		t.Errorf("a deadline in the past: %v, want a timeout that names the files", late)
	}
	there[count-1].Off = count * each
	_, err = f.agent.NewBatch(list)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("descriptor %d ", count-1)) {
		t.Errorf("the last descriptor is wrong: %v", err)
	}
}
