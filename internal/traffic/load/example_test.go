package load_test

import (
	"fmt"
	"log"

	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// A load is pure: any rank works out what any other rank holds, posts and receives. Sizes are bytes.
func Example() {
	m, err := matrix.FromRows([][]int64{{0, 100, 200}, {0, 0, 300}, {0, 0, 0}})
	if err != nil {
		log.Fatal(err)
	}
	p := load.Pattern{Name: "fan", Matrix: m, Mem: nixl.DRAM, Op: nixl.Write, Shards: 1}
	if err := p.Check(3); err != nil {
		log.Fatal(err)
	}
	for rank, needs := range p.Needs(3, 0) {
		fmt.Printf("rank %d sends from %d bytes, receives into %d:", rank, needs.Send[nixl.DRAM], needs.Recv[nixl.DRAM])
		for _, post := range p.Posts(nil, rank, 0) {
			fmt.Printf(" %v %d to rank %d", post.Op, post.Bytes, post.Peer)
		}
		fmt.Println()
	}
	// Output:
	// rank 0 sends from 300 bytes, receives into 0: WRITE 100 to rank 1 WRITE 200 to rank 2
	// rank 1 sends from 300 bytes, receives into 100: WRITE 300 to rank 2
	// rank 2 sends from 0 bytes, receives into 500:
}
