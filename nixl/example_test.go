package nixl_test

import (
	"fmt"
	"log"

	"perigee/nixl"
	"perigee/nixl/shm"
)

// pair is two agents of this process with a buffer each. In a job each rank has one agent, and the cards are
// exchanged by messages.
func pair(size int64) (agents [2]nixl.Agent, buffers [2]nixl.Buffer) {
	var err error
	for i := range agents {
		agents[i], err = shm.New().NewAgent(nixl.AgentConfig{Name: fmt.Sprintf("rank-%d", i), OneHost: true})
		if err == nil {
			buffers[i], err = agents[i].Alloc(nixl.DRAM, size)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	return agents, buffers
}

// introduce makes each agent a peer of the other, and connects them.
func introduce(agents [2]nixl.Agent) error {
	for i, a := range agents {
		card, err := agents[1-i].Card()
		if err == nil {
			err = a.AddPeer(1-i, card)
		}
		if err == nil {
			err = a.Connect([]int{1 - i})
		}
		if err != nil {
			return err
		}
	}
	return nixl.Poll(nixl.Control{}, func() (bool, error) {
		for _, a := range agents {
			if err := a.Progress(); err != nil {
				return false, err
			}
			if ok, err := a.Connected(); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// A transfer is prepared once and run any number of times; a notice follows the bytes of each run.
func Example() {
	agents, buffers := pair(1 << 20)
	defer agents[0].Close()
	defer agents[1].Close()
	if err := introduce(agents); err != nil {
		log.Fatal(err)
	}

	copy(buffers[0].Bytes(), "hello")
	whole := []nixl.Desc{{Off: 0, Len: 1 << 20}}
	batch, err := agents[0].NewBatch([]nixl.Transfer{
		{Op: nixl.Write, Peer: 1, Local: whole, Remote: whole, Notice: []byte("new block")},
	})
	if err != nil {
		log.Fatal(err)
	}
	times := make([]nixl.Times, 3)
	if err := batch.Run(nixl.Control{}, len(times), times); err != nil {
		log.Fatal(err)
	}

	notices, err := agents[1].Receive(nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range notices {
		fmt.Printf("%s from rank %d: %s\n", n.Data, n.Peer, buffers[1].Bytes()[:5])
	}
	fmt.Println(times[2].End > times[0].Start)
	// Output:
	// new block from rank 0: hello
	// new block from rank 0: hello
	// new block from rank 0: hello
	// true
}

// Routing changes from step to step, the slots do not: the lists of slots are prepared once, and
// each step picks from them.
func ExampleAgent_pickBatch() {
	const slot, slots = 4096, 100
	agents, buffers := pair(slot * slots)
	defer agents[0].Close()
	defer agents[1].Close()
	if err := introduce(agents); err != nil {
		log.Fatal(err)
	}
	descs := make([]nixl.Desc, slots)
	for i := range descs {
		descs[i] = nixl.Desc{Off: int64(i * slot), Len: slot}
		buffers[0].Bytes()[i*slot] = byte(i)
	}
	local, err := agents[0].PrepareList(nixl.Self, 0, descs)
	if err != nil {
		log.Fatal(err)
	}
	remote, err := agents[0].PrepareList(1, 0, descs)
	if err != nil {
		log.Fatal(err)
	}

	tokens, places := []int32{7, 42}, []int32{0, 99}
	batch, err := agents[0].PickBatch([]nixl.Pick{
		{Op: nixl.Write, Local: local, Remote: remote, LocalIndex: tokens, RemoteIndex: places},
	})
	if err == nil {
		err = batch.Run(nixl.Control{}, 1, nil)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(buffers[1].Bytes()[0], buffers[1].Bytes()[99*slot])
	// Output: 7 42
}

// A peer can be left out, and taken back. Both sides disconnect before either connects again.
func ExampleAgent_disconnect() {
	agents, _ := pair(100)
	defer agents[0].Close()
	defer agents[1].Close()
	if err := introduce(agents); err != nil {
		log.Fatal(err)
	}
	d := []nixl.Desc{{Len: 100}}
	batch, err := agents[0].NewBatch([]nixl.Transfer{{Peer: 1, Local: d, Remote: d}})
	if err != nil {
		log.Fatal(err)
	}

	for i, a := range agents {
		if err := a.Disconnect([]int{1 - i}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(batch.Run(nixl.Control{}, 1, nil))

	fmt.Println(introduce(agents))
	// Output:
	// shm: the batch cannot run again: peer 1 was disconnected
	// <nil>
}

// Several runs under way hide the time between the end of one and the start of the next.
func ExamplePipeline() {
	agents, _ := pair(1000)
	defer agents[0].Close()
	defer agents[1].Close()
	if err := introduce(agents); err != nil {
		log.Fatal(err)
	}
	d := []nixl.Desc{{Len: 1000}}
	var batches []nixl.Batch
	for range 4 {
		b, err := agents[0].NewBatch([]nixl.Transfer{{Peer: 1, Local: d, Remote: d}})
		if err != nil {
			log.Fatal(err)
		}
		batches = append(batches, b)
	}
	times := make([]nixl.Times, 100)
	fmt.Println(nixl.Pipeline(nixl.Control{}, batches, len(times), times))
	// Output: <nil>
}
