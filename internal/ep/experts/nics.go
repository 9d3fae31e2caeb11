package experts

import (
	"encoding/binary"
	"fmt"
	"slices"

	"perigee/internal/kit/pack"
	"perigee/nixl/device"
	"perigee/spmd"
)

// HostNICs counts the bytes that a host's NICs have moved during the measured iterations: all traffic
// of the host, also that of other processes.
type HostNICs struct {
	Host     string   `json:"host"`
	NICs     []string `json:"nics"`
	Sent     int64    `json:"sent_bytes"`
	Received int64    `json:"received_bytes"`
}

// counters reads the NICs' counters at the first rank of each host; elsewhere it returns nothing.
func counters(w *spmd.World) device.Traffic {
	if !w.LeadsHost() {
		return device.Traffic{}
	}
	return device.ThisNetwork().Traffic()
}

// since returns the bytes that have moved since an earlier look at the same NICs.
func since(before, now device.Traffic) device.Traffic {
	if !slices.Equal(before.Names, now.Names) || now.Sent < before.Sent ||
		now.Received < before.Received {
		return device.Traffic{}
	}
	return device.Traffic{Names: now.Names, Sent: now.Sent - before.Sent, Received: now.Received - before.Received}
}

// sum adds what the same NICs have moved at two times.
func sum(a, b device.Traffic) device.Traffic {
	if !slices.Equal(a.Names, b.Names) {
		return device.Traffic{}
	}
	return device.Traffic{Names: a.Names, Sent: a.Sent + b.Sent, Received: a.Received + b.Received}
}

func appendTraffic(b []byte, t device.Traffic) []byte {
	b = pack.AppendTexts(b, t.Names)
	return binary.AppendVarint(binary.AppendVarint(b, t.Sent), t.Received)
}

// hostNICs lists the hosts that have counters.
func hostNICs(ranks []*rankPiece, hosts []string) []HostNICs {
	list := []HostNICs{}
	for rank, l := range ranks {
		if len(l.nics.Names) > 0 {
			list = append(list, HostNICs{hosts[rank], l.nics.Names, l.nics.Sent, l.nics.Received})
		}
	}
	return list
}

// betweenHosts returns the bytes of the messages of an iteration that leave their host.
func (p *Plane) betweenHosts(mode Mode) (bytes int64, err error) {
	m, err := p.Matrix(mode)
	if err != nil {
		return 0, fmt.Errorf("bytes between hosts: %w", err)
	}
	for from := range m.Size() {
		for _, c := range m.Row(from) {
			if p.world.HostOf(from) != p.world.HostOf(c.Peer) {
				bytes += c.Bytes
			}
		}
	}
	return bytes, nil
}
