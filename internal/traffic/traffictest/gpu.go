package traffictest

import (
	"fmt"
	"sync/atomic"

	"perigee/nixl"
)

// GPU is an engine whose GPU memory is host memory that only transfers, ReadAt and WriteAt reach. It can do damage
// there as Damaged does.
type GPU struct {
	Damaged
	Copied atomic.Int64 // calls of ReadAt and WriteAt of GPU memory
}

// Info has another name than shm's, which has no GPU memory.
func (*GPU) Info() nixl.Info { return nixl.Info{Name: "stand-in", Version: "1", Backend: "memory"} }

// NewAgent makes an agent. Its GPU memory is an error where the configuration does not speak of it.
func (g *GPU) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := g.Damaged.NewAgent(cfg)
	return gpuAgent{a, g, cfg}, err
}

type gpuAgent struct {
	nixl.Agent
	g   *GPU
	cfg nixl.AgentConfig
}

func (a gpuAgent) Info() nixl.Info { return a.g.Info() }

func (a gpuAgent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	if mem == nixl.VRAM && !a.cfg.VRAM {
		return nil, fmt.Errorf("agent %s: GPU memory, and its configuration is for host memory", a.cfg.Name)
	}
	b, err := a.Agent.Alloc(nixl.DRAM, size)
	if err != nil || mem == nixl.DRAM {
		return b, err
	}
	return gpuBuffer{b, a.g}, nil
}

type gpuBuffer struct {
	nixl.Buffer
	g *GPU
}

func (gpuBuffer) Mem() nixl.Mem { return nixl.VRAM }
func (gpuBuffer) Bytes() []byte { return nil }

func (b gpuBuffer) ReadAt(p []byte, off int64) (int, error) {
	b.g.Copied.Add(1)
	return b.Buffer.ReadAt(p, off)
}

func (b gpuBuffer) WriteAt(p []byte, off int64) (int, error) {
	b.g.Copied.Add(1)
	return b.Buffer.WriteAt(p, off)
}
