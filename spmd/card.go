package spmd

import (
	"encoding/binary"
	"net"
	"strconv"

	"perigee/internal/kit/pack"
	"perigee/spmd/host"
)

// card holds the report of a rank to the others before any link exists. As bytes it is
// a few dozen, since a rank of a large world carries those of many others.
type card struct {
	HostID    string // distinguishes hosts
	Host      string // the host's name
	Kernel    string // the same where hosts share a machine, "" where that is not known
	CPUs      cpuSet // that it may run on
	Quota     host.Quota
	PID       int // where its shared memory can be opened
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
	b := pack.AppendText(nil, c.HostID)
	b = pack.AppendText(b, c.Host)
	b = pack.AppendText(b, c.Kernel)
	for _, n := range []int{c.PID, c.SegmentFD, c.Port, c.Quota.MilliCPUs, c.Quota.Group} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return pack.AppendTexts(c.CPUs.appendTo(b), c.IPs)
}

func decodeCard(data []byte) (card, error) {
	p := pack.Read(data)
	c := card{
		HostID: p.Text(), Host: p.Text(), Kernel: p.Text(),
		PID: p.Number(maxNumber), SegmentFD: p.Number(maxNumber), Port: p.Number(maxPort),
		Quota: host.Quota{MilliCPUs: p.Number(maxNumber), Group: p.Number(maxNumber)},
		CPUs:  readCPUs(p), IPs: p.Texts(),
	}
	return c, p.End("a card")
}

const (
	maxNumber = 1 << 31
	maxPort   = 1<<16 - 1
)
