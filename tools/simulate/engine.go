package simulate

import (
	"bytes"
	"errors"
	"math"

	"perigee/nixl"
)

// planner is an engine without memory: its agents prepare everything, and move nothing.
type planner struct{}

// The size of a card is that of a NIXL 1.5.1 agent with buffers in host memory which UCX reaches
// over TCP, on a machine with one Ethernet interface. A test compares it with a real one.
const (
	emptyCard   = 408
	firstBuffer = 144
	nextBuffer  = 68
)

func cardBytes(buffers int) int {
	if buffers == 0 {
		return emptyCard
	}
	return emptyCard + firstBuffer + (buffers-1)*nextBuffer
}

var plannerInfo = nixl.Info{Name: "planner", Version: "1", Backend: "none"}

func (planner) Info() nixl.Info { return plannerInfo }

func (planner) NewAgent(nixl.AgentConfig) (nixl.Agent, error) { return &agent{}, nil }

var errMovesNothing = errors.New("a simulation moves no bytes")

type agent struct{ sizes []int64 }

func (a *agent) Info() nixl.Info { return plannerInfo }

func (a *agent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	a.sizes = append(a.sizes, size)
	return buffer{len(a.sizes) - 1, mem, size}, nil
}

func (a *agent) OpenFile(nixl.File) (nixl.Buffer, error) { return nil, errMovesNothing }

// anyCard serves all agents as their card: none keeps a copy.
var anyCard = bytes.Repeat([]byte{1}, 64<<10)

func (a *agent) Card() ([]byte, error)            { return anyCard[:cardBytes(len(a.sizes))], nil }
func (a *agent) AddPeer(int, []byte) error        { return nil }
func (a *agent) Connect([]int) error              { return nil }
func (a *agent) Connected() (bool, error)         { return true, nil }
func (a *agent) Progress() error                  { return nil }
func (a *agent) Disconnect([]int) error           { return nil }
func (a *agent) Reregister(int) error             { return nil }
func (a *agent) VRAMLeft() (string, int64, error) { return "", math.MaxInt64, nil }
func (a *agent) Close() error                     { return nil }

func (a *agent) Notify(int, []byte) error                       { return errMovesNothing }
func (a *agent) Receive(n []nixl.Notice) ([]nixl.Notice, error) { return n, nil }
func (a *agent) PickBatch([]nixl.Pick) (nixl.Batch, error)      { return nil, errMovesNothing }
func (a *agent) PrepareList(int, int, []nixl.Desc) (nixl.List, error) {
	return nil, errMovesNothing
}

func (a *agent) NewBatch(transfers []nixl.Transfer) (nixl.Batch, error) {
	b := batch{transfers: len(transfers)}
	for _, t := range transfers {
		// What a peer's buffer holds its own batches check.
		if err := t.Check(a.sizes[t.LocalBuffer], 1<<62); err != nil {
			return nil, err
		}
		b.bytes += t.Bytes()
	}
	return b, nil
}

type buffer struct {
	id   int
	mem  nixl.Mem
	size int64
}

func (b buffer) ID() int                            { return b.id }
func (b buffer) Mem() nixl.Mem                      { return b.mem }
func (b buffer) Size() int64                        { return b.size }
func (b buffer) Bytes() []byte                      { return nil }
func (b buffer) ReadAt([]byte, int64) (int, error)  { return 0, errMovesNothing }
func (b buffer) WriteAt([]byte, int64) (int, error) { return 0, errMovesNothing }

type batch struct {
	transfers int
	bytes     int64
}

func (b batch) Len() int     { return b.transfers }
func (b batch) Bytes() int64 { return b.bytes }
func (b batch) Prep() int64  { return 0 }

// Run moves nothing, at once: the simulation counts what ranks send each other around it.
func (b batch) Run(nixl.Control, int, []nixl.Times) error { return nil }
func (b batch) Post() error                               { return errMovesNothing }
func (b batch) Done() (bool, error)                       { return false, errMovesNothing }
func (b batch) Wait(nixl.Control, *nixl.Times) error      { return errMovesNothing }
func (b batch) Release() error                            { return nil }
