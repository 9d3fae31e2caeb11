package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"perigee/spmd/spmdtest"
)

// severedPair returns two ranks. The first connection from the dialer to the acceptor is closed on the way after its
// handshake, with what the dialer sends first. lost gets what the dialer learns.
func severedPair(t *testing.T, dialer int) (ends []*TCP, lost chan error) {
	t.Helper()
	ends, lost = make([]*TCP, 2), make(chan error, 2)
	var address [2]string
	for rank := range ends {
		cfg := TCPConfig{
			Rank: rank, Size: 2, Secret: secret, Listen: "127.0.0.1:0",
			Resolve: func(_ context.Context, rank int) ([]string, error) { return []string{address[rank]}, nil },
		}
		if rank == dialer {
			cfg.LinkLost = func(rank int, err error) { lost <- fmt.Errorf("rank %d: %w", rank, err) }
		} else {
			cfg.LinkLost = func(rank int, err error) { t.Errorf("the acceptor blames rank %d: %v", rank, err) }
		}
		var err error
		if ends[rank], err = ListenTCP(cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[rank].Close() })
		address[rank] = addressOf(ends[rank])
	}
	between := newRelay(t, address[1-dialer], nil)
	address[1-dialer] = between.Addr().String()
	return ends, lost
}

// lose sends a message that does not arrive, and then one the other way that does, as the question of a rank that
// waits.
func lose(t *testing.T, ctx context.Context, ends []*TCP, dialer int) {
	t.Helper()
	acceptor := 1 - dialer
	// The link may end meanwhile.
	ends[dialer].Send(ctx, acceptor, Header{Channel: 1}, []byte("lost"))
	unused := func() bool {
		ends[acceptor].mu.Lock()
		defer ends[acceptor].mu.Unlock()
		p := ends[acceptor].peerLocked(dialer)
		return p.candidates == 0 && p.in == nil && len(ends[acceptor].links) == 0
	}
	spmdtest.Wait(t, unused)
	asked := make(chan struct{})
	ends[dialer].HandleControl(func(int, Header, []byte) { close(asked) })
	if err := ends[acceptor].Send(ctx, dialer, Header{Channel: 1, Op: Control}, []byte("?")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-ctx.Done():
		t.Fatal("the question has not arrived")
	}
}

// loseEachWay looks at two ranks after [lose], with each of them as the dialer.
func loseEachWay(t *testing.T, look func(t *testing.T, ctx context.Context, ends []*TCP, dialer int, lost <-chan error)) {
	for dialer := range 2 {
		t.Run(fmt.Sprint("rank ", dialer, " dials"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ends, lost := severedPair(t, dialer)
			lose(t, ctx, ends, dialer)
			look(t, ctx, ends, dialer, lost)
		})
	}
}

// Whichever of two ranks has dialled the other, it learns that its messages are lost.
func TestSeveredLinkIsFound(t *testing.T) {
	loseEachWay(t, func(t *testing.T, ctx context.Context, ends []*TCP, dialer int, lost <-chan error) {
		select {
		case err := <-lost:
			if !errors.Is(err, ErrSevered) || err.Error()[:7] != fmt.Sprintf("rank %d:", 1-dialer) {
				t.Errorf("LinkLost got %v", err)
			}
		case <-ctx.Done():
			t.Error("LinkLost was not called")
		}
		if err := ends[dialer].Send(ctx, 1-dialer, Header{Channel: 1}, nil); err == nil {
			t.Error("a message is sent on another link than the one before it")
		}
	})
}

// A rank that ends is not said to go on, though its links do not end at the same time.
func TestEndOfARankSeversNothing(t *testing.T) {
	loseEachWay(t, func(t *testing.T, ctx context.Context, ends []*TCP, dialer int, lost <-chan error) {
		ends[1-dialer].Close()
		select {
		case err := <-lost:
			t.Errorf("LinkLost got %v", err)
		case <-time.After(severedWait + 200*time.Millisecond):
		}
	})
}

// The dialer may learn of the end of its link only after the other rank has opened one.
func TestSeveredLinkIsFoundLater(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ends, lost := severedPair(t, 1)
	between, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer between.Close()
	ends[1].resolve = func(context.Context, int) ([]string, error) { return []string{between.Addr().String()}, nil }
	kept := make(chan net.Conn, 1)
	go func() {
		dialer, err := between.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		acceptor := dialRaw(t, ends[0])
		go io.CopyN(dialer, acceptor, int64(len(magic)+nonceSize+proofSize))
		io.CopyN(acceptor, dialer, 8+nonceSize+proofSize)
		io.ReadFull(dialer, make([]byte, frameStart)) // after the acceptor's answer
		acceptor.Close()
		kept <- dialer
	}()
	lose(t, ctx, ends, 1)
	select {
	case err := <-lost:
		t.Errorf("LinkLost got %v while the link stood", err)
	case conn := <-kept:
		conn.Close()
	}
	select {
	case err := <-lost:
		if !errors.Is(err, ErrSevered) {
			t.Errorf("LinkLost got %v", err)
		}
	case <-ctx.Done():
		t.Error("LinkLost was not called")
	}
}
