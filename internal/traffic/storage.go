package traffic

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"perigee/internal/fault"
	"perigee/internal/traffic/link"
	"perigee/internal/traffic/series"
	"perigee/nixl"
)

// StorageOp is what a rank reads from a file and writes to it while it plays a pattern.
type StorageOp struct {
	Path     string
	FileSize int64 // bytes; a file that is not there is made with so many
	// The pieces that are read and written; a size of 0 is nothing. They lie within FileSize.
	ReadOffset, ReadSize, WriteOffset, WriteSize int64
	// Overwrite allows to write to a file that is there.
	Overwrite bool
}

// check refuses what does not lie in the file.
func (o StorageOp) check() error {
	for _, part := range []struct {
		what      string
		off, size int64
	}{{"read", o.ReadOffset, o.ReadSize}, {"write", o.WriteOffset, o.WriteSize}} {
		if part.off < 0 || part.size < 0 || part.size > o.FileSize || part.off > o.FileSize-part.size {
			return fmt.Errorf("%s_offset %d and %s_size %d do not lie within file_size %d", part.what, part.off, part.what, part.size, o.FileSize)
		}
	}
	switch {
	case o.Path == "":
		return errors.New("it has no file_path")
	case o.ReadSize == 0 && o.WriteSize == 0:
		return errors.New("it neither reads nor writes: read_size and write_size are 0")
	}
	return nil
}

// checkStorage refuses storage operations that cannot be, at all ranks alike.
func (p Pattern) checkStorage(size int) error {
	for _, rank := range slices.Sorted(maps.Keys(p.Storage)) {
		if rank < 0 || rank >= size {
			return fault.New(fault.Input, "%s: storage_ops names rank %d, but there are %d ranks", p.label(), rank, size)
		}
		if err := p.Storage[rank].check(); err != nil {
			return fault.New(fault.Input, "%s: storage_ops of rank %d: %w", p.label(), rank, err)
		}
	}
	return nil
}

// withStorage adds the ranks that have storage operations to a list of ranks.
func (p Pattern) withStorage(ranks []int) []int {
	if len(p.Storage) == 0 {
		return ranks
	}
	all := slices.AppendSeq(slices.Clone(ranks), maps.Keys(p.Storage))
	slices.Sort(all)
	return slices.Compact(all)
}

// store is a rank's way to its files: an agent of its own, so that files and
// messages are moved side by side.
type store struct {
	agent  nixl.Agent
	memory nixl.Buffer
	files  map[string]storeFile

	running sync.WaitGroup // storage operations
	using   sync.Mutex
}

// storeFile is an open file.
type storeFile struct {
	nixl.Buffer
	writable bool
}

// use calls f when nobody else uses the agent or its batches: they are for one goroutine at a time. So the
// storage operations of plans that are posted together run one after another.
func (st *store) use(f func() error) error {
	st.using.Lock()
	defer st.using.Unlock()
	return f()
}

func (st *store) close() error {
	st.running.Wait()
	return st.agent.Close()
}

// openStore makes the store, once.
func (s *Session) openStore() (*store, error) {
	if s.store != nil {
		return s.store, nil
	}
	cfg := s.cfg
	cfg.Name += "-files"
	agent, err := s.engine.NewAgent(cfg)
	if err != nil {
		return nil, err
	}
	s.store = &store{agent: agent, files: map[string]storeFile{}}
	return s.store, nil
}

// prepareStorage opens what this rank needs for patterns: memory, and each file once, as
// large as the largest of its operations wants it.
func (s *Session) prepareStorage(patterns []Pattern) error {
	files := map[string]StorageOp{}
	var most int64
	for _, p := range patterns {
		op, ok := p.Storage[s.world.Rank()]
		if !ok {
			continue
		}
		most = max(most, op.ReadSize+op.WriteSize)
		known := files[op.Path]
		op.FileSize, op.WriteSize = max(op.FileSize, known.FileSize), max(op.WriteSize, known.WriteSize)
		op.Overwrite = op.Overwrite || known.Overwrite
		files[op.Path] = op
	}
	if len(files) == 0 {
		return nil
	}
	st, err := s.openStore()
	if err != nil {
		return err
	}
	return st.use(func() error { return st.reserve(most, files) })
}

// reserve makes the memory large enough, and opens the files that are not open yet as they are needed.
func (st *store) reserve(memory int64, files map[string]StorageOp) (err error) {
	if st.memory == nil || st.memory.Size() < memory {
		if st.memory, err = st.agent.Alloc(nixl.DRAM, memory); err != nil {
			return fault.New(link.Kind(err), "memory for storage_ops: %w", err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		op := files[path]
		known, ok := st.files[path]
		if ok && known.Size() >= op.FileSize && (known.writable || op.WriteSize == 0) {
			continue
		}
		if known, err = st.open(op); err != nil {
			return err
		}
		st.files[path] = known
	}
	return nil
}

// open opens a file that is there, or makes it.
func (st *store) open(op StorageOp) (storeFile, error) {
	info, err := os.Stat(op.Path)
	missing, write := errors.Is(err, fs.ErrNotExist), op.WriteSize > 0
	if err == nil && info.IsDir() {
		return storeFile{}, fault.New(fault.Input, "storage_ops: file_path %s is a folder, want a file", op.Path)
	}
	if !missing && write && !op.Overwrite {
		return storeFile{}, fault.New(fault.Input, "storage_ops: file %s is there already, and is not overwritten", op.Path).
			WithHint("name a file that does not exist, or run with --allow-io")
	}
	b, err := st.agent.OpenFile(nixl.File{Path: op.Path, Size: op.FileSize, Make: missing, Write: write})
	return storeFile{b, missing || write}, err
}

// storageBlock is how much of a file a descriptor moves at most.
const storageBlock = 1 << 20

// transfers lists an operation's: what is read first, then what is written, each if there is any. Memory has
// room for both.
func (o StorageOp) transfers(memory, file int) (list []nixl.Transfer) {
	add := func(op nixl.Op, at, off, size int64) {
		t := nixl.Transfer{Op: op, Peer: nixl.Self, LocalBuffer: memory, RemoteBuffer: file}
		for done := int64(0); done < size; done += storageBlock {
			n := min(storageBlock, size-done)
			t.Local = append(t.Local, nixl.Desc{Off: at + done, Len: n})
			t.Remote = append(t.Remote, nixl.Desc{Off: off + done, Len: n})
		}
		if size > 0 {
			list = append(list, t)
		}
	}
	add(nixl.Read, 0, o.ReadOffset, o.ReadSize)
	add(nixl.Write, o.ReadSize, o.WriteOffset, o.WriteSize)
	return list
}

// planStorage prepares a plan's operation at this rank, if it has one.
func (s *Session) planStorage(p *Plan) error {
	op, ok := p.Storage[s.world.Rank()]
	if !ok {
		return nil
	}
	st := s.store
	err := st.use(func() (err error) {
		p.storage, err = st.agent.NewBatch(op.transfers(st.memory.ID(), st.files[op.Path].ID()))
		return err
	})
	if err != nil {
		return fault.New(link.Kind(err), "prepare storage_ops of %s: %w", p.label(), err)
	}
	return nil
}

// startStorage starts a run of the plan's storage operation beside what else the caller does, and returns what
// waits for it.
func (p *Plan) startStorage(record bool) (wait func() error) {
	if p.storage == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	p.storing = done
	st, times := p.s.store, []nixl.Times{{Done: make([]int64, p.storage.Len())}}
	st.running.Go(func() {
		done <- st.use(func() error { return p.storage.Run(link.Control(p.s.world), 1, times) })
	})
	return func() error {
		err := <-done
		p.storing = nil
		if err != nil {
			return link.Explain(p.s.world, "storage_ops of "+p.label(), err)
		}
		if record {
			p.storageLog = append(p.storageLog, series.Logged{Stamps: series.Stamps(times[0])})
		}
		return nil
	}
}

// CollectStorage gathers at rank 0 the recorded runs of the storage operations of plans since
// the last call, one list per plan; the other ranks get nil. All ranks call it with the same plans, after
// Collect. It costs nothing where no plan has any.
func (s *Session) CollectStorage(plans []*Plan) ([][]series.StorageRun, error) {
	any := slices.ContainsFunc(plans, func(p *Plan) bool { return len(p.Storage) > 0 })
	lists := make([][]series.StorageRun, len(plans))
	if !any {
		return lists, nil
	}
	mine, shapes := make([]series.Log, len(plans)), make([]series.Shape, len(plans))
	for i, p := range plans {
		mine[i] = series.Log{Plan: p.number, Runs: p.storageLog}
		p.storageLog = nil
	}
	all, err := s.world.All().Gather(0, series.EncodeLogs(mine))
	if err != nil || all == nil {
		return nil, err
	}
	for rank, data := range all {
		for i, p := range plans {
			shapes[i] = series.Shape{Plan: p.number, Transfers: len(p.Storage[rank].transfers(0, 0))}
		}
		logs, err := series.DecodeLogs(data, shapes)
		if err != nil {
			return nil, foreign(rank, err)
		}
		for i, p := range plans {
			lists[i] = append(lists[i], s.storageRuns(logs[i], rank, p.Storage[rank])...)
		}
	}
	return lists, nil
}

// storageRuns puts one rank's runs of one plan on the common time line.
func (s *Session) storageRuns(log []series.Logged, rank int, op StorageOp) (list []series.StorageRun) {
	for i, run := range log {
		for k, t := range op.transfers(0, 0) {
			list = append(list, series.StorageRun{
				Rank: rank, Op: t.Op.String(), Iteration: i, Bytes: t.Bytes(),
				StartNS: s.world.ToCommon(rank, run.Start), EndNS: s.world.ToCommon(rank, run.Done[k]),
			})
		}
	}
	return list
}
