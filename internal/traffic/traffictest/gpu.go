package traffictest

import (
	"fmt"
	"sync/atomic"

	"perigee/nixl"
)

// GPU is an engine with GPU memory, which it can damage as Damaged does.
type GPU struct {
	Damaged
	Copied atomic.Int64 // calls of ReadAt and WriteAt of GPU memory
}

// NewGPU gives each rank a GPU of 1 GiB.
func NewGPU() *GPU {
	g := new(GPU)
	g.VRAM = 1 << 30
	return g
}

// Info has another name than shm's, which has no GPU memory.
func (*GPU) Info() nixl.Info { return nixl.Info{Name: "stand-in", Version: "1", Backend: "memory"} }

// NewAgent makes an agent. GPU memory is an error where the configuration does not speak of it.
func (g *GPU) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := g.Damaged.NewAgent(cfg)
	return countedAgent{a, g, cfg}, err
}

type countedAgent struct {
	nixl.Agent
	g   *GPU
	cfg nixl.AgentConfig
}

func (a countedAgent) Info() nixl.Info { return a.g.Info() }

func (a countedAgent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	if mem == nixl.VRAM && !a.cfg.VRAM {
		return nil, fmt.Errorf("agent %s: GPU memory, and its configuration is for host memory", a.cfg.Name)
	}
	b, err := a.Agent.Alloc(mem, size)
	if mem == nixl.VRAM {
		b = countedBuffer{b, a.g}
	}
	return b, err
}

type countedBuffer struct {
	nixl.Buffer
	g *GPU
}

func (b countedBuffer) ReadAt(p []byte, off int64) (int, error) {
	b.g.Copied.Add(1)
	return b.Buffer.ReadAt(p, off)
}

func (b countedBuffer) WriteAt(p []byte, off int64) (int, error) {
	b.g.Copied.Add(1)
	return b.Buffer.WriteAt(p, off)
}
