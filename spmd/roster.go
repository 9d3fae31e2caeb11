package spmd

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/pack"
	"perigee/spmd/host"
)

// roster is where all ranks of a world are. Rank 0 makes it of all cards and
// broadcasts it: of another rank everybody needs its host and its port, a few
// bytes, and only of a host its name and addresses. It does not change.
type roster struct {
	hosts    []Host
	leaders  []int     // the lowest rank of each host
	segments []segment // per host: the memory of its leader
	nodes    []node
	nodeOf   []int32  // by rank
	ports    []uint16 // by rank
}

// node holds the facts that ranks share which a launcher has put on the same node. A
// host may have several, where tests or containers simulate them.
type node struct {
	host int
	name string
	ips  []string
}

// segment is where the memory of a host can be opened, and how many CPUs its ranks
// have together, and how many thousandths of a CPU their quotas leave them, 0 without any.
// kernel is the first host with the same kernel, and shared how many CPUs the ranks of all these have together.
type segment struct{ pid, fd, cpus, quota, kernel, shared int }

// newRoster puts the cards of all ranks together.
func newRoster(cards []card) *roster {
	r := &roster{nodeOf: make([]int32, len(cards)), ports: make([]uint16, len(cards))}
	hosts, nodes := map[string]int{}, map[string]int32{}
	var cpus [][]cpuSet // by host
	var quotas [][]host.Quota
	var kernels []string
	for rank, c := range cards {
		h, known := hosts[c.HostID]
		if !known {
			h = len(r.segments)
			hosts[c.HostID] = h
			r.segments = append(r.segments, segment{pid: c.PID, fd: c.SegmentFD})
			cpus, quotas, kernels = append(cpus, nil), append(quotas, nil), append(kernels, c.Kernel)
		}
		cpus[h], quotas[h] = append(cpus[h], c.CPUs), append(quotas[h], c.Quota)
		n := node{host: h, name: c.Host, ips: c.IPs}
		key := string(n.encode())
		i, known := nodes[key]
		if !known {
			i = int32(len(r.nodes))
			nodes[key] = i
			r.nodes = append(r.nodes, n)
		}
		r.nodeOf[rank], r.ports[rank] = i, uint16(c.Port)
	}
	for h, sets := range cpus {
		r.segments[h].cpus, r.segments[h].quota = countCPUs(sets...), quotaOf(quotas[h])
		r.segments[h].kernel = h
		if k := kernels[h]; k != "" {
			r.segments[h].kernel = slices.Index(kernels, k)
		}
	}
	r.countShared(cpus)
	r.listHosts()
	return r
}

// countShared counts the CPUs of each kernel, of which hosts have these sets.
func (r *roster) countShared(cpus [][]cpuSet) {
	byKernel := make([][]cpuSet, len(cpus))
	for h, s := range r.segments {
		byKernel[s.kernel] = append(byKernel[s.kernel], cpus[h]...)
	}
	for h := range r.segments {
		r.segments[h].shared = countCPUs(byKernel[r.segments[h].kernel]...)
	}
}

// listHosts derives the hosts from the rest.
func (r *roster) listHosts() {
	r.hosts = make([]Host, len(r.segments))
	names := make([][]string, len(r.hosts))
	for rank := range r.nodeOf {
		n := r.node(rank)
		h := &r.hosts[n.host]
		h.Ranks = append(h.Ranks, rank)
		if !slices.Contains(names[n.host], n.name) {
			names[n.host] = append(names[n.host], n.name)
		}
	}
	r.leaders = make([]int, len(r.hosts))
	for i := range r.hosts {
		r.hosts[i].Name, r.hosts[i].CPUs = strings.Join(names[i], "+"), r.segments[i].cpus
		r.hosts[i].Quota = float64(r.segments[i].quota) / 1000
		r.leaders[i] = r.hosts[i].Ranks[0]
	}
	r.listMachines()
}

// listMachines says which hosts are one machine.
func (r *roster) listMachines() {
	machines := make([]Machine, len(r.hosts))
	for i, s := range r.segments {
		m := &machines[s.kernel]
		m.Hosts, m.Ranks, m.CPUs = append(m.Hosts, r.hosts[i].Name), m.Ranks+len(r.hosts[i].Ranks), s.shared
	}
	for i, s := range r.segments {
		if m := &machines[s.kernel]; len(m.Hosts) > 1 {
			r.hosts[i].Machine = m
		}
	}
}

func (r *roster) node(rank int) *node { return &r.nodes[r.nodeOf[rank]] }

func (r *roster) hostOf(rank int) int { return r.node(rank).host }

func (r *roster) addresses(rank int) []string {
	return addresses(r.node(rank).ips, int(r.ports[rank]))
}

func (n node) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(n.host))
	b = pack.AppendText(b, n.name)
	return pack.AppendTexts(b, n.ips)
}

// encode writes the hosts, the nodes, for each run of ranks on one node how many
// they are and which node, and the ports, each as the difference to the last.
func (r *roster) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(r.segments)))
	for _, s := range r.segments {
		for _, n := range []int{s.pid, s.fd, s.cpus, s.quota, s.kernel, s.shared} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.nodes)))
	for _, n := range r.nodes {
		b = append(b, n.encode()...)
	}
	for first := 0; first < len(r.nodeOf); {
		length := 1
		for first+length < len(r.nodeOf) && r.nodeOf[first+length] == r.nodeOf[first] {
			length++
		}
		b = binary.AppendUvarint(b, uint64(length))
		b = binary.AppendUvarint(b, uint64(r.nodeOf[first]))
		first += length
	}
	last := uint16(0)
	for _, p := range r.ports {
		b = binary.AppendVarint(b, int64(p)-int64(last))
		last = p
	}
	return b
}

// decodeRoster reads the roster of a world of size ranks.
func decodeRoster(data []byte, size int) (*roster, error) {
	p := pack.Read(data)
	r := &roster{segments: make([]segment, p.Number(size)), nodeOf: make([]int32, size), ports: make([]uint16, size)}
	for i := range r.segments {
		r.segments[i] = segment{p.Number(maxNumber), p.Number(maxNumber), p.Number(maxNumber), p.Number(maxNumber),
			p.Number(len(r.segments) - 1), p.Number(maxNumber)}
	}
	r.nodes = make([]node, p.Number(size))
	for i := range r.nodes {
		r.nodes[i] = node{host: p.Number(len(r.segments) - 1), name: p.Text(), ips: p.Texts()}
	}
	inhabited := make([]bool, len(r.segments))
	for rank := 0; rank < size && p.Err() == nil; {
		length, i := p.Number(size-rank), p.Number(len(r.nodes)-1)
		if length == 0 {
			p.Fail()
		}
		for ; length > 0 && p.Err() == nil; length-- {
			r.nodeOf[rank] = int32(i)
			inhabited[r.nodes[i].host] = true
			rank++
		}
	}
	port := int64(0)
	for rank := range r.ports {
		if port += p.Signed(); port < 0 || port > maxPort {
			p.Fail()
		}
		r.ports[rank] = uint16(port)
	}
	if slices.Contains(inhabited, false) {
		p.Fail() // a host without ranks
	}
	if err := p.End("the list of ranks"); err != nil {
		return nil, fault.New(fault.Launch, "from rank 0: %w", err)
	}
	r.listHosts()
	return r, nil
}

// counting holds the numbers from 0 on, for all groups of all ranks in this process.
var counting atomic.Pointer[[]int]

// identity returns the list 0, 1, ... n-1, which must not be changed.
func identity(n int) []int {
	if list := counting.Load(); list != nil && len(*list) >= n {
		return (*list)[:n:n]
	}
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	counting.Store(&list)
	return list
}

// decodeCards reads the cards that rank 0 has gathered.
func decodeCards(all [][]byte) ([]card, error) {
	cards := make([]card, len(all))
	for r, data := range all {
		var err error
		if cards[r], err = decodeCard(data); err != nil {
			return nil, fault.New(fault.Launch, "from rank %d: %w", r, err)
		}
	}
	return cards, nil
}
