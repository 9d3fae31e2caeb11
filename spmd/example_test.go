package spmd_test

import (
	"fmt"
	"log"
	"sync"

	"perigee/spmd"
)

// Four ranks, each of which a goroutine of this process runs, meet and add up what they have.
func Example() {
	worlds, _ := spmd.NewInMemory(4)
	var ranks sync.WaitGroup
	for _, w := range worlds {
		ranks.Go(func() {
			all := w.All()
			sum, err := spmd.AllReduce(all, []int{w.Rank() + 1}, spmd.Sum)
			if err == nil {
				err = all.Barrier()
			}
			if err != nil {
				log.Print(w.Fail(err)) // and the others' waits end
				return
			}
			if w.Rank() == 0 {
				fmt.Println("the sum is", sum[0])
			}
		})
	}
	ranks.Wait()
	// Output: the sum is 10
}

// The odd ranks of four meet alone. Rank 3 has the first place of their group.
func ExampleWorld_Group() {
	worlds, _ := spmd.NewInMemory(4)
	var ranks sync.WaitGroup
	for _, w := range worlds {
		if w.Rank()%2 == 0 {
			continue
		}
		ranks.Go(func() {
			odd, err := w.Group([]int{3, 1})
			if err != nil {
				log.Print(w.Fail(err))
				return
			}
			text, err := odd.Broadcast(0, fmt.Append(nil, "from rank ", w.Rank()))
			if err != nil {
				log.Print(w.Fail(err))
				return
			}
			if w.Rank() == 1 {
				fmt.Printf("rank 1 got %q\n", text)
			}
		})
	}
	ranks.Wait()
	// Output: rank 1 got "from rank 3"
}
