package job

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"perigee/nixl"
	"perigee/nixl/capi"
)

// peerEnv makes a process one of the ranks of Bare.
const peerEnv = "PERIGEE_BENCH_CONNECT"

// Child must be called at the start of a main (or TestMain) that uses Bare or Start. In the process of a rank it does
// the rank's work and never returns.
func Child() {
	if role := os.Getenv(fakeEnv); role != "" {
		if err := fake(role); err != nil {
			fmt.Fprintln(os.Stderr, "rank:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(peerEnv) == "" {
		return
	}
	if err := serve(gob.NewDecoder(os.NewFile(3, "in")), gob.NewEncoder(os.NewFile(4, "out"))); err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// What a rank is told to do, in this order for each life of its agent.
type order struct {
	Describe bool // make an agent with two buffers, and answer with its card
	Connect  bool // connect with the agents of Cards
	Rank     int
	Bytes    [2]int64 // of the buffers
	Cards    [][]byte
}

// answer holds the outcome of an order, and how long the library's part took.
type answer struct {
	Card []byte
	Took time.Duration
	Err  string
}

// serve follows orders until there are no more. While it waits it makes progress for its peers.
func serve(in *gob.Decoder, out *gob.Encoder) error {
	library, err := capi.Find("")
	if err != nil {
		return err
	}
	engine, err := capi.Load(library)
	if err != nil {
		return err
	}
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if in.Decode(&o) != nil {
				return // the parent has ended
			}
			orders <- o
		}
	}()
	var agent nixl.Agent
	for {
		select {
		case o, more := <-orders:
			if !more {
				return nil
			}
			var a answer
			if o.Describe {
				if agent != nil {
					agent.Close()
				}
				agent, a, err = describe(engine, o)
			} else {
				a, err = connect(agent, o)
			}
			if err != nil {
				a.Err = err.Error()
			}
			if err := out.Encode(a); err != nil {
				return err
			}
		default:
			if agent != nil {
				if err := agent.Progress(); err != nil {
					return err
				}
			}
			time.Sleep(20 * time.Microsecond) // the cores are for ranks that connect
		}
	}
}

// lives is how many agents this process has made: their names differ.
var lives int

// describe makes an agent with buffers as perigee would, outside of the measured time, and measures the call that
// describes them.
func describe(engine nixl.Engine, o order) (nixl.Agent, answer, error) {
	lives++
	agent, err := engine.NewAgent(nixl.AgentConfig{
		Name: fmt.Sprintf("bench-%d-%d", o.Rank, lives), OneHost: true, Progress: "auto",
	})
	if err != nil {
		return nil, answer{}, err
	}
	for _, size := range o.Bytes {
		if _, err := agent.Alloc(nixl.DRAM, size); err != nil {
			return agent, answer{}, err
		}
	}
	start := time.Now()
	card, err := agent.Card()
	return agent, answer{Card: card, Took: time.Since(start)}, err
}

// connect is the least that a program must do with NIXL's calls to reach its peers: what perigee takes beyond it is
// perigee's own.
func connect(agent nixl.Agent, o order) (answer, error) {
	start := time.Now()
	var peers []int
	for rank, card := range o.Cards {
		if rank == o.Rank {
			continue
		}
		if err := agent.AddPeer(rank, card); err != nil {
			return answer{}, err
		}
		peers = append(peers, rank)
	}
	if err := agent.Connect(peers); err != nil {
		return answer{}, err
	}
	err := nixl.Poll(nixl.Control{}, func() (bool, error) {
		if err := agent.Progress(); err != nil {
			return false, err
		}
		return agent.Connected()
	})
	return answer{Took: time.Since(start)}, err
}

// Bare is a number of processes on this host, each with an agent of NIXL and nothing else of perigee.
type Bare struct {
	ranks []bareRank
	bytes [2]int64
}

type bareRank struct {
	cmd *exec.Cmd
	in  *gob.Encoder
	out *gob.Decoder
	end []io.Closer
}

// StartBare starts the processes. Each will register two buffers of these sizes.
func StartBare(ranks int, bytes [2]int64) (*Bare, error) {
	b := &Bare{bytes: bytes}
	for range ranks {
		theirIn, in, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		out, theirOut, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), peerEnv+"=1")
		cmd.ExtraFiles = []*os.File{theirIn, theirOut}
		cmd.Stderr = os.Stderr
		err = cmd.Start()
		theirIn.Close()
		theirOut.Close()
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		b.ranks = append(b.ranks, bareRank{cmd, gob.NewEncoder(in), gob.NewDecoder(out), []io.Closer{in, out}})
	}
	return b, nil
}

// Connect makes new agents and returns how long the slowest rank spent in the library's part of connecting: describing
// its memory, loading the metadata of all others, connecting to them, and waiting until they have answered.
func (b *Bare) Connect() (time.Duration, error) {
	described, err := b.all(func(int) order { return order{Describe: true} })
	if err != nil {
		return 0, err
	}
	cards := make([][]byte, len(described))
	for rank, a := range described {
		cards[rank] = a.Card
	}
	connected, err := b.all(func(int) order { return order{Connect: true, Cards: cards} })
	if err != nil {
		return 0, err
	}
	var most time.Duration
	for rank := range b.ranks {
		most = max(most, described[rank].Took+connected[rank].Took)
	}
	return most, nil
}

// all gives each rank its order and waits for the answers.
func (b *Bare) all(make func(rank int) order) ([]answer, error) {
	for rank, r := range b.ranks {
		o := make(rank)
		o.Rank, o.Bytes = rank, b.bytes
		if err := r.in.Encode(o); err != nil {
			return nil, fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	var list []answer
	for rank, r := range b.ranks {
		var a answer
		if err := r.out.Decode(&a); err != nil {
			return nil, fmt.Errorf("rank %d has ended: %w", rank, err)
		}
		if a.Err != "" {
			return nil, fmt.Errorf("rank %d: %s", rank, a.Err)
		}
		list = append(list, a)
	}
	return list, nil
}

// Close ends the processes.
func (b *Bare) Close() error {
	var errs []error
	for _, r := range b.ranks {
		for _, c := range r.end {
			errs = append(errs, c.Close())
		}
	}
	for _, r := range b.ranks {
		errs = append(errs, r.cmd.Wait())
	}
	return errors.Join(errs...)
}
