package capi

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/nixl"
	"perigee/nixl/internal/process"
)

func exampleCard() card {
	return card{
		owner: process.ID{Boot: [16]byte{1, 2, 3}, Namespace: 4, PID: 5, Start: 6},
		name:  "rank-0", metadata: []byte("metadata"),
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
	if err != nil {
		t.Fatal(err)
	}
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
			c, err := decodeCard(b)
			if err == nil && !bytes.Equal(c.encode(), b) {
				t.Errorf("a card with two encodings: %x", b)
			}
		}
	})
}

func resealed(data []byte) []byte {
	if len(data) < cardChecksum {
		return nil
	}
	return seal(data)
}
