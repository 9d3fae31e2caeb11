package boot

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// agentStore is the key-value store of torchrun's agents, a TCPStore of torch's. Where they share it with the ranks
// MASTER_ADDR is the host of the store, while rank 0 is on the host whose name comes first in the alphabet. If that is
// another one rank 0 leaves its addresses in the store. Strangers that reach it can leave others there: they are only
// tried, and who answers has to prove itself.
//
// The protocol is that of torch 2.1 and later. A connection begins with a number; a request is a byte and what it is
// about. Lengths have 8 bytes, and all numbers are in the byte order of the hosts.
type agentStore struct {
	address string // host:port
	port    string // rank 0's

	mu    sync.Mutex
	next  time.Time     // when it is asked again
	pause time.Duration // then
	found []string      // host:port of rank 0, as far as known
}

// Requests to a TCPStore.
const (
	storeSet   = 1
	storeGet   = 3
	storeCheck = 5

	storeMagic = 0x3C85F7CE // what a connection begins with, after a zero
	storeHas   = 0          // the answer to storeCheck
)

// A rank asks for rank 0's addresses if it has not found it for storePause, then less and less often. It tries
// maxStoreIPs of them, and takes a value of maxStoreValue bytes. storeLimit bounds one talk with the store.
const (
	storePause    = 500 * time.Millisecond
	maxStorePause = 5 * time.Second
	storeLimit    = 2 * time.Second
	maxStoreIPs   = 64
	maxStoreValue = 4096
)

// publish says which addresses rank 0 has.
func (s *agentStore) publish(ctx context.Context, ips []string) error {
	return s.talk(ctx, func(c io.ReadWriter) error {
		value := strings.Join(ips[:min(len(ips), maxStoreIPs)], ",")
		if _, err := c.Write(storeText(storeText([]byte{storeSet}, s.key()), value)); err != nil {
			return err
		}
		has, err := s.check(c) // no answer comes to the request itself
		if err == nil && !has {
			err = errors.New("it has not kept them")
		}
		return err
	})
}

// keepTrying publishes the addresses, again and again until that is done or ctx has ended.
func (s *agentStore) keepTrying(ctx context.Context, ips []string, log *slog.Logger) {
	log = log.With("candidates", ips)
	for ctx.Err() == nil {
		err := s.publish(ctx, ips)
		if err == nil {
			log.Info("left rank 0's addresses with torchrun's agents")
			return
		}
		log.Info("cannot leave rank 0's addresses with torchrun's agents", "reason", err)
		select {
		case <-time.After(maxStorePause):
		case <-ctx.Done():
		}
	}
}

// addresses are host:port where rank 0 may be, according to the store.
func (s *agentStore) addresses(ctx context.Context) []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.next) {
		return s.found
	}
	first := s.next.IsZero()
	s.pause = min(max(2*s.pause, storePause), maxStorePause)
	s.next = now.Add(s.pause)
	if first {
		return nil // most often rank 0 is where it is expected, or will be in a moment
	}
	var value []byte
	err := s.talk(ctx, func(c io.ReadWriter) (err error) {
		value, err = s.get(c)
		return err
	})
	if err == nil && value != nil {
		s.found = placesIn(string(value), s.port)
	}
	return s.found
}

// placesIn are the addresses in a value of the store, each with the port. A zone is a name of one host's, of any bytes.
func placesIn(value, port string) (places []string) {
	for text := range strings.SplitSeq(value, ",") {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" && len(places) < maxStoreIPs {
			places = append(places, net.JoinHostPort(ip.String(), port))
		}
	}
	return places
}

// talk opens a connection to the store.
func (s *agentStore) talk(ctx context.Context, with func(io.ReadWriter) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		hello := binary.NativeEndian.AppendUint32([]byte{0}, storeMagic)
		if _, err = conn.Write(hello); err == nil {
			err = with(struct {
				io.Reader
				io.Writer
			}{bufio.NewReader(conn), conn})
		}
	}
	if err != nil {
		return fmt.Errorf("the store of torchrun's agents at %s: %w", s.address, err)
	}
	return nil
}

// key is the key of rank 0's addresses. The port belongs to one torchrun.
func (s *agentStore) key() string { return "/perigee/" + s.port }

// check reports whether the store has the key.
func (s *agentStore) check(c io.ReadWriter) (bool, error) {
	if _, err := c.Write(storeText(binary.NativeEndian.AppendUint64([]byte{storeCheck}, 1), s.key())); err != nil {
		return false, err
	}
	var answer [1]byte
	_, err := io.ReadFull(c, answer[:])
	return answer[0] == storeHas, err
}

// get returns the value of the key, nil if the store has none.
func (s *agentStore) get(c io.ReadWriter) ([]byte, error) {
	if has, err := s.check(c); err != nil || !has { // a request for what is not there would end the store's answers
		return nil, err
	}
	if _, err := c.Write(storeText([]byte{storeGet}, s.key())); err != nil {
		return nil, err
	}
	var size [8]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := binary.NativeEndian.Uint64(size[:])
	if n > maxStoreValue {
		return nil, fmt.Errorf("a value of %d bytes, want %d at most", n, maxStoreValue)
	}
	value := make([]byte, n)
	if _, err := io.ReadFull(c, value); err != nil {
		return nil, err
	}
	return value, nil
}

// storeText appends a text as the store reads it.
func storeText(to []byte, text string) []byte {
	return append(binary.NativeEndian.AppendUint64(slices.Clip(to), uint64(len(text))), text...)
}
