package nixltest

import (
	"fmt"
	"os"
	"testing"

	"perigee/nixl"
)

// Bench times what package nixl says is cheap, with two connected agents of this process.
func Bench(b *testing.B, s Setup) {
	const count, size = 1024, 7408 // tokens of an expert-parallel dispatch
	pair := benchPair(b, s, count*size)
	descs := make([]nixl.Desc, count)
	index := make([]int32, count)
	for i := range descs {
		descs[i], index[i] = nixl.Desc{Off: int64(i * size), Len: size}, int32(i)
	}
	fail := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, bytes := range []int{8, 2048, nixl.MaxNotice} {
		b.Run(fmt.Sprintf("Notice/%dB", bytes), func(b *testing.B) {
			message, inbox := make([]byte, bytes), []nixl.Notice{}
			for b.Loop() {
				fail(pair[0].Notify(1, message))
				for inbox = inbox[:0]; len(inbox) == 0; {
					var err error
					inbox, err = pair[1].Receive(inbox)
					fail(err)
					fail(pair[0].Progress())
				}
			}
		})
	}
	b.Run("ReceiveNothing", func(b *testing.B) {
		for b.Loop() {
			_, err := pair[1].Receive(nil)
			fail(err)
		}
	})
	b.Run("NewBatch/1024", func(b *testing.B) {
		for b.Loop() {
			batch, err := pair[0].NewBatch([]nixl.Transfer{{Peer: 1, Local: descs, Remote: descs}})
			fail(err)
			fail(batch.Release())
		}
	})
	local, err := pair[0].PrepareList(nixl.Self, 0, descs)
	fail(err)
	remote, err := pair[0].PrepareList(1, 0, descs)
	fail(err)
	b.Run("PickBatch/1024", func(b *testing.B) {
		for b.Loop() {
			batch, err := pair[0].PickBatch([]nixl.Pick{{Local: local, Remote: remote, LocalIndex: index,
				RemoteIndex: index}})
			fail(err)
			fail(batch.Release())
		}
	})
	batch, err := pair[0].PickBatch([]nixl.Pick{{Local: local, Remote: remote, LocalIndex: index, RemoteIndex: index}})
	fail(err)
	b.Run("Run/1024", func(b *testing.B) {
		b.SetBytes(count * size)
		for b.Loop() {
			fail(batch.Run(nixl.Control{}, 1, nil))
		}
	})
	b.Run("Reconnect", func(b *testing.B) {
		for b.Loop() {
			for i, a := range pair {
				fail(a.Disconnect([]int{1 - i}))
			}
			fail(meet(pair))
		}
	})
}

// benchPair connects two agents of this process.
func benchPair(b *testing.B, s Setup, size int64) (pair [2]nixl.Agent) {
	b.Helper()
	engine, err := s.Open()
	if err != nil {
		b.Fatal(err)
	}
	cfg := s.Config
	for i := range pair {
		cfg.Name = fmt.Sprintf("bench-%d-%d-%d", os.Getpid(), agents.Add(1), i)
		if pair[i], err = engine.NewAgent(cfg); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { pair[i].Close() })
		if _, err := pair[i].Alloc(nixl.DRAM, size); err != nil {
			b.Fatal(err)
		}
	}
	if err := meet(pair); err != nil {
		b.Fatal(err)
	}
	return pair
}
