package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/traffic/series"
	"perigee/nixl"
	"perigee/spmd"
)

// Rank 2, which neither sends nor receives, reads; rank 0 reads and writes; what is written arrives, and all runs
// are told with their bytes.
func TestStorageBesideTraffic(t *testing.T) {
	const half = storageBlock + 77
	there := filepath.Join(t.TempDir(), "there")
	old := bytes.Repeat([]byte{7}, 2*half)
	if err := os.WriteFile(there, old, 0o600); err != nil {
		t.Fatal(err)
	}
	m := fromRows(t, []int64{0, 1000, 0}, []int64{0, 0, 0}, []int64{0, 0, 0})
	pattern := Pattern{Matrix: m, Shards: 1, Storage: map[int]StorageOp{
		0: {Path: there, FileSize: 2 * half, ReadOffset: half, ReadSize: half, WriteSize: half, Overwrite: true},
		2: {Path: there + "-made", FileSize: 500, ReadSize: 500},
	}}
	plain := Pattern{Matrix: m, Shards: 1}
	play(t, 3, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{pattern, plain})
		if err != nil {
			return err
		}
		p := plans[0]
		if got := fmt.Sprint(p.Ranks(), p.Initiators(), p.TakesPart(), p.Initiates()); got != fmt.Sprint([]int{0, 1, 2}, []int{0}, true, w.Rank() != 1) {
			return fmt.Errorf("ranks, initiators, takes part, initiates: %s", got)
		}
		if s.store != nil {
			data := bytes.Repeat([]byte{9}, int(s.store.memory.Size()))
			if _, err := s.store.memory.WriteAt(data, 0); err != nil {
				return err
			}
		}
		if err := Warmup(plans, 2); err != nil {
			return err
		}
		if err := p.Verify(); err != nil {
			return err
		}
		if data, err := os.ReadFile(there); err != nil || !bytes.Equal(data, old) {
			return fmt.Errorf("warm-up or verification wrote the file: %v", err)
		}
		if err := w.All().Barrier(); err != nil {
			return err
		}
		if err := p.Run(2, true); err != nil {
			return err
		}
		if err := plans[1].Run(1, true); err != nil {
			return err
		}
		if err := p.Run(1, false); err != nil {
			return err
		}
		if err := p.Post(); err != nil {
			return err
		}
		if err := p.Wait(true); err != nil {
			return err
		}
		if _, err := s.Collect(plans); err != nil {
			return err
		}
		lists, err := s.CollectStorage(plans)
		if err != nil || w.Rank() != 0 {
			return err
		}
		return wantStorage(lists, half)
	})
	data, err := os.ReadFile(there)
	if err != nil || !bytes.Equal(data[:half], bytes.Repeat([]byte{9}, half)) || !bytes.Equal(data[half:], old[half:]) {
		t.Errorf("the file does not hold what was written: %v", err)
	}
	if _, err := os.Stat(there + "-made"); err == nil {
		t.Error("the file that was made is still there")
	}
}

func wantStorage(lists [][]series.StorageRun, half int64) error {
	if len(lists[1]) > 0 {
		return fmt.Errorf("a pattern without files has %v", lists[1])
	}
	var got []string
	for _, r := range lists[0] {
		got = append(got, fmt.Sprint(r.Iteration, r.Rank, r.Op, r.Bytes))
		if r.StartNS == 0 || r.EndNS <= r.StartNS {
			return fmt.Errorf("stamps of %+v are not in order", r)
		}
	}
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprint(i, 0, "READ", half), fmt.Sprint(i, 0, "WRITE", half))
	}
	for i := range 3 {
		want = append(want, fmt.Sprint(i, 2, "READ", 500))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// What cannot be is refused, and where one rank alone finds out, all end.
func TestStorageRefusals(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	if err := os.WriteFile(there, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	m := fromRows(t, []int64{0, 1}, []int64{0, 0})
	for name, c := range map[string]struct {
		rank  int
		op    StorageOp
		kind  fault.Kind
		words string
	}{
		"rank":       {2, StorageOp{Path: there, FileSize: 1, ReadSize: 1}, fault.Input, "names rank 2"},
		"no path":    {0, StorageOp{FileSize: 1, ReadSize: 1}, fault.Input, "no file_path"},
		"nothing":    {0, StorageOp{Path: there, FileSize: 1}, fault.Input, "neither reads nor writes"},
		"beyond":     {0, StorageOp{Path: there, FileSize: 10, ReadOffset: 5, ReadSize: 6}, fault.Input, "do not lie within file_size 10"},
		"overflow":   {0, StorageOp{Path: there, FileSize: 10, WriteOffset: 1 << 62, WriteSize: 1 << 62}, fault.Input, "do not lie within"},
		"negative":   {0, StorageOp{Path: there, FileSize: 10, ReadOffset: -1, ReadSize: 6}, fault.Input, "do not lie within"},
		"overwrite":  {1, StorageOp{Path: there, FileSize: 10, WriteSize: 6}, fault.Input, "is not overwritten"},
		"too short":  {1, StorageOp{Path: there, FileSize: 101, ReadSize: 6}, fault.Input, "has 100 bytes"},
		"unreadable": {1, StorageOp{Path: folder, FileSize: 101, ReadSize: 6}, fault.Input, folder},
		"no folder":  {1, StorageOp{Path: there + "/x", FileSize: 101, ReadSize: 6}, fault.Input, there + "/x"},
		"full":       {1, StorageOp{Path: there + "x", FileSize: 1 << 60, ReadSize: 6}, fault.Resource, "no space left"},
	} {
		errs := sessions(t, 2, func(_ *spmd.World, s *Session) error {
			_, err := s.Prepare([]Pattern{{Matrix: m, Shards: 1, Storage: map[int]StorageOp{c.rank: c.op}}})
			return err
		})
		err := errs[min(c.rank, 1)]
		if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v (%v), want kind %v and %q", name, err, fault.KindOf(err), c.kind, c.words)
		}
	}
}

// A file that becomes shorter while it is used ends the job, with its name.
func TestStorageFails(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	m := fromRows(t, []int64{0, 1}, []int64{0, 0})
	errs := sessions(t, 2, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Name: "kv", Matrix: m, Shards: 1, Mem: nixl.DRAM, Storage: map[int]StorageOp{1: {Path: there, FileSize: 100_000, ReadSize: 100_000}}}})
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			if err := os.Truncate(there, 10); err != nil {
				return err
			}
		}
		if err := plans[0].Run(3, true); err != nil {
			return err
		}
		return w.All().Barrier()
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "storage_ops of kv: reading file "+there) {
			t.Errorf("rank %d: got %v", r, err)
		}
	}
}

// Messages and files of a run start together, and the next run begins when both are through, however many are asked
// for at once. Each is a run of its own for the timeout.
func TestStorageInEveryRun(t *testing.T) {
	const runs = 5
	path := filepath.Join(t.TempDir(), "made")
	play(t, 1, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Matrix: fromRows(t, []int64{1000}), Shards: 1, Storage: map[int]StorageOp{0: {Path: path, FileSize: storageBlock, ReadSize: storageBlock}}}})
		if err != nil {
			return err
		}
		p, messages, files := plans[0], []int(nil), []int(nil)
		p.batch = recorder{p.batch, new(int), &messages, 0}
		p.storage = recorder{p.storage, new(int), &files, 0}
		if err := p.Run(runs, true); err != nil {
			return err
		}
		want := []int{1, 1, 1, 1, 1}
		if !slices.Equal(messages, want) || !slices.Equal(files, want) || len(p.log) != runs || len(p.storageLog) != runs {
			return fmt.Errorf("messages ran %v times and files %v; %d and %d stamps", messages, files, len(p.log), len(p.storageLog))
		}
		for k := range runs - 1 {
			if over := max(p.log[k].End, p.storageLog[k].End); p.log[k+1].Start < over || p.storageLog[k+1].Start < over {
				return fmt.Errorf("run %d began before run %d was over", k+1, k)
			}
		}
		return nil
	})
}

// The files of plans that are posted together are moved one plan after the other: an agent is for one goroutine.
func TestStorageOfTwoPlans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made")
	pattern := Pattern{Matrix: fromRows(t, []int64{1}), Shards: 1, Storage: map[int]StorageOp{0: {Path: path, FileSize: 16 * storageBlock, ReadSize: 16 * storageBlock}}}
	play(t, 1, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{pattern, pattern})
		if err != nil {
			return err
		}
		a, b := plans[0], plans[1]
		for i := range 10 {
			if err := errors.Join(a.Post(), b.Post(), b.Wait(true), a.Wait(true)); err != nil {
				return err
			}
			if x, y := a.storageLog[i], b.storageLog[i]; x.Start < y.End && y.Start < x.End {
				return fmt.Errorf("round %d: both moved bytes at the same time", i)
			}
		}
		return nil
	})
}

// A file that has been read so far is written only if that is allowed, and then for real.
func TestStorageWritesLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := fromRows(t, []int64{1})
	prepare := func(s *Session, op StorageOp) (*Plan, error) {
		op.Path, op.FileSize = path, 6
		plans, err := s.Prepare([]Pattern{{Matrix: m, Shards: 1, Storage: map[int]StorageOp{0: op}}})
		if err != nil {
			return nil, err
		}
		return plans[0], nil
	}
	play(t, 1, func(w *spmd.World, s *Session) error {
		reader, err := prepare(s, StorageOp{ReadSize: 6})
		if err != nil {
			return err
		}
		if _, err := prepare(s, StorageOp{WriteSize: 6}); err == nil || !strings.Contains(err.Error(), "is not overwritten") {
			return fmt.Errorf("writing without being allowed to: got %v", err)
		}
		writer, err := prepare(s, StorageOp{WriteSize: 6, Overwrite: true})
		if err != nil {
			return err
		}
		if _, err := s.store.memory.WriteAt([]byte("after."), 0); err != nil {
			return err
		}
		if err := writer.Run(1, true); err != nil {
			return err
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "after." {
			return fmt.Errorf("the file holds %q, %v", data, err)
		}
		return reader.Run(1, true)
	})
}
