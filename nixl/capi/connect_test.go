//go:build cgo

package capi

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// A peer may greet before its card is here.
func TestGreetingBeforeCard(t *testing.T) {
	names := []string{"early-0", "early-1"}
	agents, cards := make([]nixl.Agent, 2), make([][]byte, 2)
	for i, name := range names {
		agents[i] = newAgent(t, nixl.AgentConfig{Name: name, OneHost: true})
		var err error
		if cards[i], err = agents[i].Card(); err != nil {
			t.Fatal(err)
		}
	}
	hello := binary.LittleEndian.AppendUint64([]byte(noticeMagic+"H"), 1)
	hello = append(hello, make([]byte, 8)...)
	var incoming []byte
	for _, field := range [][]byte{[]byte(names[1]), hello} {
		incoming = append(binary.NativeEndian.AppendUint32(incoming, uint32(len(field))), field...)
	}
	if !agents[0].(*agent).sort(incoming) {
		t.Error("a greeting was not seen")
	}
	for i, a := range agents {
		must.Do(t, a.AddPeer(1-i, cards[1-i]))
		must.Do(t, a.Connect([]int{1 - i}))
	}
	for late := time.Now().Add(5 * time.Minute); ; {
		all := true
		for _, a := range agents {
			must.Do(t, a.Progress())
			done, err := a.Connected()
			must.Do(t, err)
			all = all && done
		}
		if all {
			return
		}
		if time.Now().After(late) {
			t.Fatal("not connected")
		}
	}
}

// The plugin would move the beginning of a longer descriptor and call it complete.
func TestLongestPieceOfAFile(t *testing.T) {
	pieces := func(n int64) nixl.Transfer { return nixl.Transfer{Local: []nixl.Desc{{Len: 1}, {Len: n}}} }
	a := &agent{}
	if err := a.checkLengths(pieces(maxFileBytes), "file x"); err != nil {
		t.Error(err)
	}
	err := a.checkLengths(pieces(maxFileBytes+1), "file x")
	wantFault(t, err, fault.Input, "file x, descriptor 1: 2147479553 bytes", "at most 2147479552")
	if !strings.Contains(fault.HintOf(err), "--engine shm") {
		t.Errorf("hint %q", fault.HintOf(err))
	}
	a.cfg.FileBackend = "GDS"
	if err := a.checkLengths(pieces(maxFileBytes+1), "file x"); err != nil {
		t.Error(err)
	}
}

// What is said of a peer that does not let others at its memory can be followed.
func TestUnreachablePeer(t *testing.T) {
	own, err := kernel.Self()
	must.Do(t, err)
	elsewhere, gone := own, own
	elsewhere.Namespace++
	gone.PID = 1<<31 - 1
	a := &agent{own: own, cfg: nixl.AgentConfig{OneHost: true}}
	for words, id := range map[string]kernel.ProcessID{"another pid namespace": elsewhere, "process_vm_readv": gone} {
		err := a.attachable(&peer{card: card{owner: id}})
		wantFault(t, err, fault.Engine, words)
		if !strings.Contains(fault.HintOf(err), "UCX_TLS=tcp") {
			t.Errorf("%s: hint %q", words, fault.HintOf(err))
		}
	}
	a.mode.thread = true
	if err := a.attachable(&peer{card: card{owner: gone}}); err != nil {
		t.Errorf("with a thread: %v", err)
	}
}
