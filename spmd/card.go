package spmd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// card is what a rank tells the others before any link exists. As bytes it is
// a few dozen, since a rank of a large world carries those of many others.
type card struct {
	HostID    string // what tells hosts apart
	Host      string // the host's name
	CPUs      cpuSet // that it may run on
	PID       int    // where its shared memory can be opened
	SegmentFD int
	IPs       []string // best first
	Port      int
}

// addresses are host:port pairs, best first.
func addresses(ips []string, port int) []string {
	list := make([]string, len(ips))
	for i, ip := range ips {
		list[i] = net.JoinHostPort(ip, strconv.Itoa(port))
	}
	return list
}

func (c card) encode() []byte {
	b := appendText(nil, c.HostID)
	b = appendText(b, c.Host)
	for _, n := range []int{c.PID, c.SegmentFD, c.Port} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return appendTexts(c.CPUs.appendTo(b), c.IPs)
}

func decodeCard(data []byte) (card, error) {
	p := parcel{rest: data}
	c := card{
		HostID: p.text(), Host: p.text(),
		PID: p.number(maxNumber), SegmentFD: p.number(maxNumber), Port: p.number(maxPort),
		CPUs: p.cpus(), IPs: p.texts(),
	}
	return c, p.end("a card")
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

const (
	maxNumber = 1 << 31
	maxPort   = 1<<16 - 1
)

var errTorn = errors.New("a message was torn")

// parcel takes apart what another rank has put together. After the first thing
// that is not as it should be everything is 0.
type parcel struct {
	rest []byte
	err  error
}

func (p *parcel) spoil() { p.rest, p.err = nil, errTorn }

// number reads a number from 0 to most.
func (p *parcel) number(most int) int {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 || most < 0 || v > uint64(most) {
		p.spoil()
		return 0
	}
	p.rest = p.rest[n:]
	return int(v)
}

func (p *parcel) signed() int64 {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.spoil()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parcel) bytes() []byte {
	n := p.number(len(p.rest))
	if n > len(p.rest) { // the length itself took some
		p.spoil()
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parcel) text() string { return string(p.bytes()) }

func (p *parcel) texts() []string {
	list := make([]string, p.number(len(p.rest)))
	for i := range list {
		list[i] = p.text()
	}
	return list
}

// end reports what was wrong, leftovers included.
func (p *parcel) end(what string) error {
	if p.err == nil && len(p.rest) > 0 {
		p.spoil()
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", what, p.err)
	}
	return nil
}
