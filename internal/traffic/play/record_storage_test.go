package play

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

// Rank 2, which neither sends nor receives, reads; rank 0 reads and writes; what is written arrives, and all runs
// are told with their bytes.
func TestStorageBesideTraffic(t *testing.T) {
	const half = blockOfFile + 77
	there := filepath.Join(t.TempDir(), "there")
	old := bytes.Repeat([]byte{7}, 2*half)
	must.Do(t, os.WriteFile(there, old, 0o600))
	m := fromRows(t, []int64{0, 1000, 0}, []int64{0, 0, 0}, []int64{0, 0, 0})
	pattern := load.Pattern{Matrix: m, Shards: 1, Storage: map[int]load.StorageOp{
		0: {Path: there, FileSize: 2 * half, ReadOffset: half, ReadSize: half, WriteSize: half, Overwrite: true},
		2: {Path: there + "-made", FileSize: 500, ReadSize: 500},
	}}
	plain := load.Pattern{Matrix: m, Shards: 1}
	mustRanks(t, 3, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{pattern, plain})
		if err != nil {
			return err
		}
		p := plans[0]
		if got := fmt.Sprint(p.Ranks, p.Initiators, p.TakesPart(), p.Initiates()); got != fmt.Sprint([]int{0, 1, 2}, []int{0}, true, w.Rank() != 1) {
			return fmt.Errorf("ranks, initiators, takes part, initiates: %s", got)
		}
		if err := Warmup(plans, 2); err != nil {
			return err
		}
		if data, err := os.ReadFile(there); err != nil || !bytes.Equal(data, old) {
			return fmt.Errorf("warm-up wrote the file: %v", err)
		}
		if err := w.All().Barrier(); err != nil {
			return err
		}
		if err := Verify(p); err != nil {
			return err
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
		lists, err := Collect(s, plans)
		if err != nil || w.Rank() != 0 {
			return err
		}
		return wantStorage(lists, half)
	})
	data, err := os.ReadFile(there)
	if err != nil || data[0] != wantedByte(0, 0, 0, 0, 1) || data[half-1] != wantedByte(half-1, 0, 0, 0, 1) || !bytes.Equal(data[half:], old[half:]) {
		t.Errorf("the file does not hold what was written: %v", err)
	}
	if _, err := os.Stat(there + "-made"); err == nil {
		t.Error("the file that was made is still there")
	}
}

func wantStorage(lists []Collected, half int64) error {
	if len(lists[1].Storage) > 0 {
		return fmt.Errorf("a pattern without files has %v", lists[1])
	}
	var got []string
	for _, r := range lists[0].Storage {
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
	must.Do(t, os.WriteFile(there, make([]byte, 100), 0o600))
	m := fromRows(t, []int64{0, 1}, []int64{0, 0})
	for _, c := range map[string]struct {
		rank  int
		op    load.StorageOp
		kind  fault.Kind
		words string
	}{
		"rank":       {2, load.StorageOp{Path: there, FileSize: 1, ReadSize: 1}, fault.Input, "names rank 2"},
		"no path":    {0, load.StorageOp{FileSize: 1, ReadSize: 1}, fault.Input, "no file_path"},
		"nothing":    {0, load.StorageOp{Path: there, FileSize: 1}, fault.Input, "neither reads nor writes"},
		"beyond":     {0, load.StorageOp{Path: there, FileSize: 10, ReadOffset: 5, ReadSize: 6}, fault.Input, "do not lie within file_size 10"},
		"overflow":   {0, load.StorageOp{Path: there, FileSize: 10, WriteOffset: 1 << 62, WriteSize: 1 << 62}, fault.Input, "do not lie within"},
		"negative":   {0, load.StorageOp{Path: there, FileSize: 10, ReadOffset: -1, ReadSize: 6}, fault.Input, "do not lie within"},
		"overwrite":  {1, load.StorageOp{Path: there, FileSize: 10, WriteSize: 6}, fault.Input, "is not overwritten"},
		"too short":  {1, load.StorageOp{Path: there, FileSize: 101, ReadSize: 6}, fault.Input, "has 100 bytes"},
		"unreadable": {1, load.StorageOp{Path: folder, FileSize: 101, ReadSize: 6}, fault.Input, folder},
		"no folder":  {1, load.StorageOp{Path: there + "/x", FileSize: 101, ReadSize: 6}, fault.Input, there + "/x"},
		"full":       {1, load.StorageOp{Path: there + "x", FileSize: 1 << 60, ReadSize: 6}, fault.Resource, "no space left"},
	} {
		errs := tryRanks(t, 2, func(_ *spmd.World, s *session.Session) error {
			_, err := Prepare(s, []load.Load{load.Pattern{Matrix: m, Shards: 1, Storage: map[int]load.StorageOp{c.rank: c.op}}})
			return err
		})
		err := errs[min(c.rank, 1)]
		must.Fail(t, err, c.kind, c.words)
	}
}

// A file that becomes shorter while it is used ends the job, with its name.
func TestStorageFails(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	must.Do(t, os.WriteFile(there, make([]byte, 100_000), 0o600))
	m := fromRows(t, []int64{0, 1}, []int64{0, 0})
	errs := tryRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{load.Pattern{Name: "kv", Matrix: m, Shards: 1, Mem: nixl.DRAM, Storage: map[int]load.StorageOp{1: {Path: there, FileSize: 100_000, ReadSize: 100_000}}}})
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
