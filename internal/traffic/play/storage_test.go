package play

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/spmd"
)

// blockOfFile is the most that a descriptor of a file moves.
const blockOfFile = 1 << 20

// Messages and files of a run start together, and the next run begins when both are through, however many are asked
// for at once. The timeout applies to each run alone.
func TestStorageInEveryRun(t *testing.T) {
	const runs = 5
	path := filepath.Join(t.TempDir(), "made")
	mustRanks(t, 1, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{load.Pattern{Matrix: fromRows(t, []int64{1000}), Shards: 1, Storage: map[int]load.StorageOp{0: {Path: path, FileSize: blockOfFile, ReadSize: blockOfFile}}}})
		if err != nil {
			return err
		}
		p, messages, files := plans[0], []int(nil), []int(nil)
		p.parts[0].batch = recorder{p.parts[0].batch, new(int), &messages, 0}
		p.parts[1].batch = recorder{p.parts[1].batch, new(int), &files, 0}
		if err := p.Run(runs, true); err != nil {
			return err
		}
		want := []int{1, 1, 1, 1, 1}
		if !slices.Equal(messages, want) || !slices.Equal(files, want) || len(p.parts[0].log) != runs || len(p.parts[1].log) != runs {
			return fmt.Errorf("messages ran %v times and files %v; %d and %d stamps", messages, files, len(p.parts[0].log), len(p.parts[1].log))
		}
		for k := range runs - 1 {
			if over := max(p.parts[0].log[k].End, p.parts[1].log[k].End); p.parts[0].log[k+1].Start < over || p.parts[1].log[k+1].Start < over {
				return fmt.Errorf("run %d began before run %d was over", k+1, k)
			}
		}
		return nil
	})
}

// The files of plans that are posted together are moved one plan after the other: an agent is for one goroutine.
func TestStorageOfTwoPlans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made")
	pattern := load.Pattern{Matrix: fromRows(t, []int64{1}), Shards: 1, Storage: map[int]load.StorageOp{0: {Path: path, FileSize: 16 * blockOfFile, ReadSize: 16 * blockOfFile}}}
	mustRanks(t, 1, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{pattern, pattern})
		if err != nil {
			return err
		}
		a, b := plans[0], plans[1]
		for i := range 10 {
			if err := errors.Join(a.Post(), b.Post(), b.Wait(true), a.Wait(true)); err != nil {
				return err
			}
			if x, y := a.parts[1].log[i], b.parts[1].log[i]; x.Start < y.End && y.Start < x.End {
				return fmt.Errorf("round %d: both moved bytes at the same time", i)
			}
		}
		return nil
	})
}

// A file that has been read so far is written only if that is allowed, and then for real.
func TestStorageWritesLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "there")
	must.Do(t, os.WriteFile(path, []byte("before"), 0o600))
	m := fromRows(t, []int64{1})
	prepare := func(s *session.Session, op load.StorageOp) (*LoadPlan, error) {
		op.Path, op.FileSize = path, 6
		plans, err := Prepare(s, []load.Load{load.Pattern{Matrix: m, Shards: 1, Storage: map[int]load.StorageOp{0: op}}})
		if err != nil {
			return nil, err
		}
		return plans[0], nil
	}
	mustRanks(t, 1, func(w *spmd.World, s *session.Session) error {
		reader, err := prepare(s, load.StorageOp{ReadSize: 6})
		if err != nil {
			return err
		}
		if _, err := prepare(s, load.StorageOp{WriteSize: 6}); err == nil || !strings.Contains(err.Error(), "is not overwritten") {
			return fmt.Errorf("writing without being allowed to: got %v", err)
		}
		writer, err := prepare(s, load.StorageOp{WriteSize: 6, Overwrite: true})
		if err != nil {
			return err
		}
		memory, _ := writer.parts[1].Buffer(load.Place{Side: load.Send})
		if _, err := memory.WriteAt([]byte("after."), 0); err != nil {
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
