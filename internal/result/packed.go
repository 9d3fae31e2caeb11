package result

import (
	"bytes"
	"encoding/binary"
	"slices"

	"perigee/internal/kit/pack"
	"perigee/internal/traffic/series"
)

// Measurements in a journal are packed: as JSON they would take ten times the room, and longer than they ran. What
// follows from the rest of a measurement, its latency and mean bandwidth, is left out. The stamps of each are
// differences from its start, and its start from that of the one before.

// appendRuns writes those from one on, in records of some size.
func appendRuns(to *bytes.Buffer, list []Measurement, from int) {
	for from < len(list) {
		p := packer{}
		p.unsigned(uint64(from))
		for ; from < len(list) && len(p.data) < runsPiece; from++ {
			p.measurement(&list[from])
		}
		appendRecord(to, runs, p.data)
	}
}

// appendAgain writes some with their numbers.
func appendAgain(to *bytes.Buffer, list []Measurement, changed []int) {
	p := packer{}
	for _, i := range slices.Compact(slices.Sorted(slices.Values(changed))) {
		if i < len(list) {
			p.unsigned(uint64(i))
			p.measurement(&list[i])
		}
	}
	if len(p.data) > 0 {
		appendRecord(to, again, p.data)
	}
}

type packer struct {
	data   []byte
	start  int64 // of the measurement before
	phases map[string]uint64
}

func (p *packer) unsigned(v uint64) { p.data = binary.AppendUvarint(p.data, v) }
func (p *packer) signed(v int64)    { p.data = binary.AppendVarint(p.data, v) }

// optional writes a number that may not be there.
func (p *packer) optional(v *int64) {
	if p.flag(v != nil); v != nil {
		p.signed(*v)
	}
}

// phase writes a name, and later its number among those of the record.
func (p *packer) phase(name string) {
	if n, known := p.phases[name]; known {
		p.unsigned(n)
		return
	}
	if p.phases == nil {
		p.phases = map[string]uint64{}
	}
	n := uint64(len(p.phases))
	p.phases[name] = n
	p.unsigned(n)
	p.data = pack.AppendText(p.data, name)
}

func (p *packer) flag(b bool) {
	if b {
		p.data = append(p.data, 1)
		return
	}
	p.data = append(p.data, 0)
}

func (p *packer) measurement(m *Measurement) {
	p.unsigned(uint64(m.Pattern))
	p.phase(m.Phase)
	p.unsigned(uint64(m.Iteration))
	p.signed(m.StartNS - p.start)
	p.signed(m.EndNS - m.StartNS)
	p.signed(m.UncertaintyNS)
	p.optional(m.BarrierExitSkewNS)
	p.optional(m.StartSkewNS)
	p.flag(m.Filled)
	p.optional(m.AgreedNS)
	p.unsigned(uint64(len(m.Ranks)))
	for i := range m.Ranks {
		p.rank(&m.Ranks[i], m.StartNS)
	}
	p.start = m.StartNS
}

func (p *packer) rank(k *series.RankRun, start int64) {
	p.signed(int64(k.Rank))
	p.signed(k.StartNS - start)
	p.signed(k.PostNS - k.StartNS)
	p.signed(k.EndNS - k.StartNS)
	p.signed(k.Bytes)
	p.signed(k.LateNS)
	p.unsigned(uint64(len(k.Peers)))
	for i := range k.Peers {
		to := &k.Peers[i]
		p.signed(int64(to.Peer))
		p.signed(to.Bytes)
		p.signed(to.EndNS - k.StartNS)
		p.optional(to.MayMeetNS)
		p.optional(to.CPUWaitNS)
		p.optional(to.PollWaitNS)
		p.overlap(to.Overlap)
	}
}

func (p *packer) overlap(o *series.Overlap) {
	p.flag(o != nil)
	if o == nil {
		return
	}
	p.data = pack.AppendText(pack.AppendFloat(p.data, o.Share), o.Shared)
	p.signed(int64(o.Messages))
	p.signed(o.FirstNS)
	p.unsigned(uint64(len(o.By)))
	for _, by := range o.By {
		p.data = pack.AppendFloat(pack.AppendText(p.data, by.Resource), by.Share)
		p.signed(int64(by.Messages))
	}
}

// unpacker reads what a packer wrote.
type unpacker struct {
	*pack.Reader
	start  int64
	phases []string
}

// unpackRuns hands the measurements of a record of runs to each, with their numbers, until that says no.
func unpackRuns(data []byte, each func(i int, m *Measurement) bool) error {
	u := unpacker{Reader: pack.Read(data)}
	for i := u.Number(1 << 40); u.Err() == nil && u.Left() > 0; i++ {
		if m := u.measurement(); u.Err() == nil && !each(i, m) {
			return nil
		}
	}
	return u.End("measurements")
}

// unpackAgain reads a record of those that have changed.
func unpackAgain(data []byte, each func(i int, m *Measurement)) error {
	u := unpacker{Reader: pack.Read(data)}
	for u.Err() == nil && u.Left() > 0 {
		i := u.Number(1 << 40)
		if m := u.measurement(); u.Err() == nil {
			each(i, m)
		}
	}
	return u.End("measurements")
}

func (u *unpacker) optional() *int64 {
	if u.Number(1) == 0 {
		return nil
	}
	v := u.Signed()
	return &v
}

func (u *unpacker) phase() string {
	n := u.Number(len(u.phases))
	if n == len(u.phases) {
		u.phases = append(u.phases, u.Text())
	}
	return u.phases[n]
}

func (u *unpacker) measurement() *Measurement {
	const most = 1 << 40
	m := &Measurement{Pattern: u.Number(most), Phase: u.phase(), Iteration: u.Number(most)}
	m.StartNS = u.start + u.Signed()
	m.EndNS = m.StartNS + u.Signed()
	m.UncertaintyNS, m.BarrierExitSkewNS, m.StartSkewNS = u.Signed(), u.optional(), u.optional()
	m.Filled, m.AgreedNS = u.Number(1) == 1, u.optional()
	for left := u.Count(); left > 0 && u.Err() == nil; left-- {
		m.Ranks = append(m.Ranks, u.rank(m.StartNS))
	}
	u.start = m.StartNS
	m.LatencyNS, m.MeanBandwidth = m.Run.LatencyNS(), m.Run.MeanBandwidth()
	return m
}

func (u *unpacker) rank(start int64) series.RankRun {
	k := series.RankRun{Rank: int(u.Signed()), StartNS: start + u.Signed()}
	k.PostNS, k.EndNS, k.Bytes, k.LateNS = k.StartNS+u.Signed(), k.StartNS+u.Signed(), u.Signed(), u.Signed()
	for left := u.Count(); left > 0 && u.Err() == nil; left-- {
		k.Peers = append(k.Peers, series.PeerRun{Peer: int(u.Signed()), Bytes: u.Signed(),
			EndNS: k.StartNS + u.Signed(), MayMeetNS: u.optional(), CPUWaitNS: u.optional(),
			PollWaitNS: u.optional(), Overlap: u.overlap()})
	}
	return k
}

func (u *unpacker) overlap() *series.Overlap {
	if u.Number(1) == 0 {
		return nil
	}
	o := &series.Overlap{Share: u.Float(), Shared: u.Text(), Messages: int(u.Signed()), FirstNS: u.Signed()}
	for left := u.Count(); left > 0 && u.Err() == nil; left-- {
		o.By = append(o.By, series.OverlapBy{Resource: u.Text(), Share: u.Float(), Messages: int(u.Signed())})
	}
	return o
}
