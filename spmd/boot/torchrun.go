package boot

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"

	"perigee/internal/fault"
)

// EnvSecret is the job's secret where the launcher gives none.
const EnvSecret = "PERIGEE_SECRET"

var torchrunVariables = []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}

// detectTorchelastic recognises what torchrun itself has started.
func detectTorchelastic(env Environ) (connect, error) {
	if id, _ := env("TORCHELASTIC_RUN_ID"); id == "" {
		return nil, nil
	}
	return detectTorchrun(env)
}

// detectTorchrun recognises anything that sets torchrun's variables. A lone
// RANK or MASTER_PORT may mean anything. WORLD_SIZE means this, and so do all
// the others together.
func detectTorchrun(env Environ) (connect, error) {
	v := readVariables(env, torchrunVariables...)
	if !v.has("WORLD_SIZE") && len(v.lack) > 1 {
		return nil, nil
	}
	return requireTorchrun(env)
}

func requireTorchrun(env Environ) (connect, error) {
	r, err := readTorchrun(env)
	if err != nil {
		return nil, err
	}
	return r.join, nil
}

// readTorchrun reads the variables of torchrun, which many other launchers set
// too: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and LOCAL_RANK where known.
// Rank 0 listens on MASTER_PORT.
func readTorchrun(env Environ) (*rendezvous, error) {
	v := readVariables(env, torchrunVariables...)
	if err := v.incomplete("torchrun"); err != nil {
		return nil, err
	}
	rank, size, err := v.rankAndSize("RANK", "WORLD_SIZE")
	if err != nil {
		return nil, err
	}
	port, err := v.integer("MASTER_PORT", 1, 65535)
	if err != nil {
		return nil, err
	}
	localRank := -1
	if s, _ := env("LOCAL_RANK"); s != "" {
		if localRank, err = strconv.Atoi(s); err != nil || localRank < 0 || localRank >= size {
			return nil, fault.New(fault.Launch, "LOCAL_RANK=%s: want an integer from 0 to %d", s, size-1)
		}
	}
	host := v.values["MASTER_ADDR"]
	// torchrun's agent may keep a store of its own on MASTER_PORT, and says so.
	// Then rank 0 takes another port that all ranks can work out.
	if s, _ := env("TORCHELASTIC_USE_AGENT_STORE"); strings.EqualFold(s, "true") {
		id, _ := env("TORCHELASTIC_RUN_ID")
		port = derivedPort(fmt.Sprint(id, "/", host, ":", port))
	}
	r := &rendezvous{
		launcher: "torchrun", rank: rank, size: size, localRank: localRank, iface: ifaceOf(env),
		host: host, listen: []string{net.JoinHostPort(loopback(host), strconv.Itoa(port))},
		meet: []string{net.JoinHostPort(host, strconv.Itoa(port))},
		hints: hints{
			occupied: "choose another MASTER_PORT; the one given is in use",
			refused:  "set the same " + EnvSecret + " for all ranks, or choose another MASTER_PORT if a different program listens there",
			silent:   "is rank 0 running, and is MASTER_ADDR its address?",
			missing:  "start them too, or give less in WORLD_SIZE",
		},
	}
	r.secret, r.notes = sharedSecret(env, fmt.Sprint("torchrun/", host, ":", port, "/", size))
	return r, nil
}

// derivedPort maps a name that all ranks know to a port below the ephemeral
// range of Linux.
func derivedPort(name string) int {
	h := sha256.Sum256([]byte(name))
	return 20000 + int(binary.LittleEndian.Uint32(h[:])%12000)
}

// sharedSecret takes the secret from the environment, or makes one out of
// what the ranks know of the job, which keeps strangers' mistakes out, but not
// an attacker.
func sharedSecret(env Environ, job string) (secret []byte, notes []string) {
	if s, _ := env(EnvSecret); s != "" {
		return []byte(s), nil
	}
	h := sha256.Sum256([]byte("perigee job " + job))
	return h[:], []string{EnvSecret + " is not set: links between ranks are not protected against an attacker on this network"}
}
