package session_test

import (
	"fmt"
	"log"
	"sync"

	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// greet is what one rank does: it reserves what a load needs, and sends what the load says that it sends.
func greet(w *spmd.World, m *matrix.Matrix) error {
	s, err := session.Open(w, new(traffictest.Engine), nixl.AgentConfig{}, 1)
	if err != nil {
		return err
	}
	defer s.Close()
	p := load.Pattern{Matrix: m, Mem: nixl.DRAM, Op: nixl.Write, Shards: 1}
	reserved, err := s.Reserve([]load.Load{p}) // by all ranks; buffers and connections are there when it returns
	if err != nil {
		return err
	}
	lane := reserved[0].Lanes[0]
	send, _ := lane.Buffer(load.Place{Mem: nixl.DRAM, Side: load.Send})
	copy(send.Bytes(), "hello")
	batch, err := lane.Batch(p.Transfers(w.Rank(), 0))
	if err != nil {
		return err
	}
	if err := batch.Run(nixl.Control{}, 1, nil); err != nil {
		return err
	}
	if err := w.All().Barrier(); err != nil { // what has been written is there
		return err
	}
	if w.Rank() == 1 {
		recv, from := lane.Buffer(load.Place{Mem: nixl.DRAM, Side: load.Recv})
		fmt.Printf("rank 1 got %q\n", recv.Bytes()[from:][:5])
	}
	return w.All().Barrier() // before memory goes away
}

// Rank 0 sends 5 bytes to rank 1. Which buffers that takes follows from the load alone, at both ranks.
func Example() {
	m, err := matrix.FromRows([][]int64{{0, 5}, {0, 0}})
	if err != nil {
		log.Fatal(err)
	}
	worlds, _ := spmd.NewInMemory(2)
	var ranks sync.WaitGroup
	for _, w := range worlds {
		ranks.Go(func() {
			if err := greet(w, m); err != nil {
				log.Print(w.Fail(err)) // and the other's waits end
			}
		})
	}
	ranks.Wait()
	// Output: rank 1 got "hello"
}
