// Package traffictest lets tests play traffic between ranks that live in one process.
//
// Worlds makes n ranks over an in-memory wire, each in a goroutine with its own world, and returns the error of
// each; where one fails all fail, as in a job, and after Deadline the test fails in place of hanging. Engine is the
// shm engine for such ranks: every rank looks like a separate host to its world, yet all share the memory of the
// process; with VRAM it has GPUs, too. Damaged is an engine for tests of verification: at one rank it inverts bits of
// what is read, or loses the transfers to a peer, while it reports success.
package traffictest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/shm"
	"perigee/spmd"
)

// Deadline bounds what the ranks of a test do together, also on a machine with much else to do.
const Deadline = 5 * time.Minute

// Engine is the shm engine for ranks of one process, each of which the world
// takes for a separate host.
type Engine struct {
	shm.Engine
	// VRAM is how many bytes each rank's GPU has left; without any there are no GPUs.
	VRAM   int64
	copied int64
}

// NewGPU is an engine with a GPU of 1 GiB for each rank, which it can damage.
func NewGPU() *Damaged { return &Damaged{Engine: Engine{VRAM: 1 << 30}, Rank: -1} }

// Copied is how often GPU memory was read or written by the host.
func (e *Engine) Copied() int64 { return atomic.LoadInt64(&e.copied) }

// Info has another name than shm's, which has no GPU memory, where there are GPUs.
func (e *Engine) Info() nixl.Info {
	if e.VRAM == 0 {
		return e.Engine.Info()
	}
	return nixl.Info{Name: "stand-in", Version: "1", Backend: "memory", Can: nixl.Can{GPU: true}}
}

// NewAgent makes an agent whose peers share memory with it.
func (e *Engine) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	cfg.OneHost = true
	a, err := e.Engine.NewAgent(cfg)
	if err == nil && e.VRAM > 0 {
		a = gpuAgent{a, e, cfg}
	}
	return a, err
}

// gpuAgent has GPU memory: that of the host, but only ReadAt, WriteAt and transfers reach it.
type gpuAgent struct {
	nixl.Agent
	engine *Engine
	cfg    nixl.AgentConfig
}

func (a gpuAgent) Info() nixl.Info { return a.engine.Info() }

func (a gpuAgent) VRAMLeft() (string, int64, error) { return "GPU-0", a.engine.VRAM, nil }

func (a gpuAgent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	if mem != nixl.VRAM {
		return a.Agent.Alloc(mem, size)
	}
	if !a.cfg.VRAM {
		return nil, fmt.Errorf("agent %s: GPU memory, and its configuration is for host memory", a.cfg.Name)
	}
	b, err := a.Agent.Alloc(nixl.DRAM, size)
	return gpuBuffer{b, a.engine}, err
}

type gpuBuffer struct {
	nixl.Buffer
	engine *Engine
}

func (gpuBuffer) Mem() nixl.Mem { return nixl.VRAM }
func (gpuBuffer) Bytes() []byte { return nil }

func (b gpuBuffer) ReadAt(p []byte, off int64) (int, error) {
	atomic.AddInt64(&b.engine.copied, 1)
	return b.Buffer.ReadAt(p, off)
}

func (b gpuBuffer) WriteAt(p []byte, off int64) (int, error) {
	atomic.AddInt64(&b.engine.copied, 1)
	return b.Buffer.WriteAt(p, off)
}

// Worlds calls body at n ranks at once and returns the errors of the ranks. Where one
// fails, all fail, as in a job.
func Worlds(t testing.TB, n int, body func(w *spmd.World) error) []error {
	t.Helper()
	worlds, _ := spmd.NewInMemory(n)
	late := time.AfterFunc(Deadline, func() {
		for _, w := range worlds {
			w.Fail(fault.New(fault.Timeout, "the test took longer than %v", Deadline))
		}
	})
	defer late.Stop()
	errs := make([]error, n)
	var all sync.WaitGroup
	var first sync.Once
	for r, w := range worlds {
		all.Go(func() {
			errs[r] = errors.New("the rank ended without returning") // as t.FailNow does
			defer func() {
				if errs[r] != nil {
					first.Do(func() {
						for _, other := range worlds {
							other.Fail(errs[r])
						}
					})
				}
			}()
			errs[r] = body(w)
		})
	}
	all.Wait()
	for _, w := range worlds {
		w.Close()
	}
	return errs
}
