package capi

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

func exampleCard() card {
	return card{
		owner: kernel.ProcessID{Boot: [16]byte{1, 2, 3}, Namespace: 4, PID: 5, Start: 6},
		name:  "rank-0", metadata: []byte("metadata"), lanes: "eth0, lo",
		buffers: []cardBuffer{
			{mem: nixl.DRAM, address: 0x7f0000000000, size: 1 << 30},
			{mem: nixl.DRAM},
			{mem: nixl.VRAM, device: 3, address: 0x1000, size: 5},
		},
	}
}

func TestCardRoundTrip(t *testing.T) {
	want := exampleCard()
	got, err := decodeCard(want.encode())
	must.Do(t, err)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(card{}, cardBuffer{})); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
}

// seal replaces the checksum, so that what lies behind it is tested too.
func seal(b []byte) []byte {
	body := b[:len(b)-cardChecksum]
	return binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.ChecksumIEEE(body))
}

func TestCardRefused(t *testing.T) {
	change := func(f func(*card)) []byte {
		c := exampleCard()
		f(&c)
		return c.encode()
	}
	good := exampleCard().encode()
	flipped := bytes.Clone(good)
	flipped[70] ^= 1
	version := bytes.Clone(good)
	version[4]++
	tests := map[string][]byte{
		"flipped bit":      flipped,
		"other version":    seal(version),
		"cut and sealed":   seal(good[:len(good)-1]),
		"grown and sealed": seal(append(bytes.Clone(good), 0)),
		"no pid":           change(func(c *card) { c.owner.PID = 0 }),
		"no name":          change(func(c *card) { c.name = "" }),
		"name with a zero": change(func(c *card) { c.name = "a\x00b" }),
		"no metadata":      change(func(c *card) { c.metadata = nil }),
		"negative size":    change(func(c *card) { c.buffers[0].size = -1 }),
		"nowhere":          change(func(c *card) { c.buffers[0].address = 0 }),
		"empty somewhere":  change(func(c *card) { c.buffers[1].address = 1 }),
		"beyond the end":   change(func(c *card) { c.buffers[0].address = 1<<64 - 1 }),
		"unknown memory":   change(func(c *card) { c.buffers[0].mem = 7 }),
	}
	for name, data := range tests {
		if _, err := decodeCard(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDecodeCard(f *testing.F) {
	f.Add([]byte{})
	f.Add(exampleCard().encode())
	f.Add(exampleCard().encode()[:90])
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{data, resealed(data)} {
			if c, err := decodeCard(b); err == nil && (!bytes.Equal(c.encode(), b) || !sane(c)) {
				t.Errorf("%x is read as %+v", b, c)
			}
		}
		random := fuzztest.Random(data)
		c := card{
			owner:    kernel.ProcessID{Boot: [16]byte{byte(random.Uint32())}, Namespace: random.Uint64(), PID: uint64(fuzztest.Int64(random)), Start: random.Uint64()},
			name:     strings.Repeat("r", random.IntN(maxCardName+2)),
			metadata: fuzztest.Bytes(random, 9), lanes: string(fuzztest.Bytes(random, 3)),
		}
		if random.IntN(8) == 0 {
			c.name = string(fuzztest.Bytes(random, 2))
		}
		for range random.IntN(3) {
			e := cardBuffer{mem: nixl.VRAM, device: random.Uint32(), address: 1 + random.Uint64N(1<<40), size: 1 + random.Int64N(1<<40)}
			switch odd := fuzztest.Int64(random); random.IntN(5) {
			case 0:
				e.mem = nixl.Mem(odd)
			case 1:
				e.address = uint64(odd)
			case 2:
				e.size = odd
			case 3:
				e.size, e.address = 0, uint64(random.IntN(2))
			}
			c.buffers = append(c.buffers, e)
		}
		got, err := decodeCard(c.encode())
		if sane(c) != (err == nil) {
			t.Fatalf("%+v: %v", c, err)
		}
		if diff := cmp.Diff(c, got, cmp.AllowUnexported(card{}, cardBuffer{}), cmpopts.EquateEmpty()); err == nil && diff != "" {
			t.Fatal(diff)
		}
		if damaged := c.encode(); err == nil {
			damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
			if _, err := decodeCard(damaged); err == nil {
				t.Fatalf("damaged, and taken: %+v", c)
			}
		}
	})
}

// sane says what a card may hold.
func sane(c card) bool {
	for _, e := range c.buffers {
		end := e.address + uint64(e.size)
		if e.mem != nixl.DRAM && e.mem != nixl.VRAM || e.size < 0 || end < e.address || (e.size == 0) != (e.address == 0) {
			return false
		}
	}
	printable := strings.IndexFunc(c.name, func(r rune) bool { return r < 32 || r > 126 }) < 0
	return printable && c.name != "" && len(c.name) <= maxCardName && len(c.metadata) > 0 && c.owner.PID >= 1 && c.owner.PID < 1<<31
}

func resealed(data []byte) []byte {
	if len(data) < cardChecksum {
		return nil
	}
	return seal(data)
}
