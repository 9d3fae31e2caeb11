package transfer

import (
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"perigee/nixl"
	"perigee/nixl/engines"
)

// bufferSizes are the largest messages that are measured, by nixl.Mem.
var bufferSizes = [...]int64{nixl.DRAM: 64 << 20, nixl.VRAM: 256 << 20}

// targetEnv makes a process the target of a Pair; its value is the engine and the kind of memory.
const targetEnv = "PERIGEE_BENCH_TARGET"

// Child must be called at the start of a main (or TestMain) that uses Pair. In the process of a
// target it does the target's work and never returns.
func Child() {
	engine, memory, _ := strings.Cut(os.Getenv(targetEnv), " ")
	if engine == "" {
		return
	}
	mem, err := nixl.ParseMem(memory)
	if err == nil {
		err = target(engine, mem)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// end is one side of a Pair: its agent, and the way to the other side.
type end struct {
	agent nixl.Agent
	peer  int
	in    *gob.Decoder
	out   *gob.Encoder
}

// Pair is an initiator in this process with a target in another one, which sleeps.
type Pair struct {
	end
	cmd    *exec.Cmd
	pipes  []*os.File
	Engine nixl.Info
}

// StartPair runs an engine, auto, nixl or shm, on both sides of a pair with 64 MiB of host memory each, or 256 MiB of
// GPU 0.
func StartPair(engine string, mem nixl.Mem) (*Pair, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Pair{cmd: exec.Command("/proc/self/exe"), pipes: []*os.File{in, out}}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", targetEnv, engine, mem))
	p.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	p.cmd.Stderr = os.Stderr
	err = p.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		return nil, err
	}
	p.end, err = meet(engine, mem, 0, out, in)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.Engine = p.agent.Info()
	return p, nil
}

// target is the other process's part: meet, then sleep until the initiator goes.
func target(engine string, mem nixl.Mem) error {
	in := os.NewFile(3, "in")
	e, err := meet(engine, mem, 1, in, os.NewFile(4, "out"))
	if err != nil {
		return err
	}
	var b [1]byte
	in.Read(b[:]) // ends with the initiator
	return e.agent.Close()
}

// meet opens an agent and connects it with the one at the other end of two pipes.
func meet(engine string, mem nixl.Mem, me int, in, out *os.File) (end, error) {
	e := end{peer: 1 - me, in: gob.NewDecoder(in), out: gob.NewEncoder(out)}
	chosen, _, err := engines.Open(engine, "", true, "", nixl.Backend{})
	if err != nil {
		return e, err
	}
	e.agent, err = chosen.NewAgent(nixl.AgentConfig{
		Name: fmt.Sprintf("bench-%d", me), OneHost: true, VRAM: mem == nixl.VRAM, Progress: "auto",
	})
	if err != nil {
		return e, err
	}
	if _, err := e.agent.Alloc(mem, bufferSizes[mem]); err != nil {
		return e, err
	}
	card, err := e.agent.Card()
	if err != nil {
		return e, err
	}
	if err := e.out.Encode(card); err != nil {
		return e, err
	}
	var theirs []byte
	if err := e.in.Decode(&theirs); err != nil {
		return e, fmt.Errorf("the other side has ended: %w", err)
	}
	if err := e.agent.AddPeer(e.peer, theirs); err != nil {
		return e, err
	}
	return e, e.connect()
}

// connect makes progress until the way is open, for at most ten seconds.
func (e *end) connect() error {
	if err := e.agent.Connect([]int{e.peer}); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if err := e.agent.Progress(); err != nil {
			return err
		}
		if ok, err := e.agent.Connected(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("no connection after 10 s")
}

// Measure returns the median time, from before the post to the end, of count runs of one message.
func (p *Pair) Measure(op nixl.Op, bytes, count int) (time.Duration, error) {
	d := []nixl.Desc{{Len: int64(bytes)}}
	b, err := p.agent.NewBatch([]nixl.Transfer{{Op: op, Peer: p.peer, Local: d, Remote: d}})
	if err != nil {
		return 0, err
	}
	defer b.Release()
	times := make([]nixl.Times, count)
	if err := b.Run(nixl.Control{}, count, times); err != nil {
		return 0, err
	}
	took := make([]int64, count)
	for i, t := range times {
		took[i] = t.End - t.Start
	}
	slices.Sort(took)
	return time.Duration(took[count/2]), nil
}

// Close ends both sides.
func (p *Pair) Close() error {
	var err error
	if p.agent != nil {
		err = p.agent.Close()
	}
	for _, f := range p.pipes {
		f.Close()
	}
	if waitErr := p.cmd.Wait(); err == nil {
		err = waitErr
	}
	return err
}
