package boot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
)

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
	return func(ctx context.Context, watch Watcher) (*Process, error) {
		if err := r.agreeOnSecret(env); err != nil {
			return nil, alike{r.asFailure(err), r.localRank}
		}
		return r.join(ctx, watch)
	}, nil
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
	// torchrun's agent may keep its own store on MASTER_PORT; this variable says so.
	// Then rank 0 takes another port that all ranks can work out.
	id, _ := env("TORCHELASTIC_RUN_ID")
	restart, _ := env("TORCHELASTIC_RESTART_COUNT")
	local, _ := env("LOCAL_WORLD_SIZE")
	oneHost := local == v.values["WORLD_SIZE"]
	attempt := ""
	if oneHost { // agents of several hosts count their own restarts
		attempt = " attempt " + restart // what is left of the one before does not belong to this one
	}
	var agents *agentStore
	if usesAgentStore(env) {
		agents = &agentStore{address: net.JoinHostPort(host, strconv.Itoa(port))}
		port = derivedPort(fmt.Sprint(id, ":", port, attempt)) // hosts may call the store's by several names
		agents.port = strconv.Itoa(port)
	}
	occupied := "choose another MASTER_PORT; the one given is in use"
	if restart != "" && restart != "0" {
		occupied += ", maybe by rank 0 of the attempt before this one: end it if it is left over"
	}
	job := fmt.Sprint("torchrun ", id, ":", port, attempt)
	iface, at := ifaceOf(env), loopback(host)
	if at == "" && oneHost && iface == "" {
		at = localhost()
	}
	// localhost may be ::1, too, where another program may listen.
	meet := net.JoinHostPort(cmp.Or(at, host), strconv.Itoa(port))
	silent := "is rank 0 running, and is MASTER_ADDR its address?"
	if secret, _ := env(EnvSecret); secret != "" && at != "" && !oneHost && size > 1 {
		// Rank 0, or the agents' store, is here, and ranks of other hosts may know this one by its name.
		host, at = "", ""
	}
	if at != "" {
		agents = nil // rank 0 is where all look for it
	}
	if agents != nil {
		silent = "is rank 0 running? can this host reach it? choose the network with --iface"
	}
	r := &rendezvous{
		launcher: "torchrun", rank: rank, size: size, localRank: localRank, oneHost: oneHost, iface: iface,
		job: job, host: host, agents: agents,
		listen: []string{net.JoinHostPort(at, strconv.Itoa(port))}, meet: []string{meet},
		hints: hints{
			occupied: occupied,
			refused: "set the same " + EnvSecret +
				" for all ranks, or choose another MASTER_PORT if a different program listens there",
			silent:  silent,
			missing: "start them too, or give less in WORLD_SIZE",
		},
	}
	return r, nil
}

// agreeOnSecret takes the secret from the environment. torchrun has no other way to carry
// one: all that ranks of several hosts know, others can know too. On one host rank 0
// makes one, which processes of the same user can read.
func (r *rendezvous) agreeOnSecret(env Environ) error {
	given, err := givenSecret(env)
	if given != nil || err != nil {
		r.secret = given
		return err
	}
	if r.secret = newSecret(); r.size == 1 {
		return nil
	}
	if loopback(r.host) == "" && !r.oneHost {
		return fault.New(fault.Launch, "the ranks have no secret to know each other by: %s is not set, and MASTER_ADDR=%s may be another host",
			EnvSecret, r.host).WithHint(secretHint)
	}
	r.seal = &sameUser{}
	// Another job of this user may have the same port at another address of the host. Where a secret is given the ranks
	// of several hosts may call rank 0 by several names.
	r.job += " at " + cmp.Or(loopback(r.host), r.host)
	return nil
}

// derivedPort maps a name that all ranks know to a port below the ephemeral
// range of Linux.
func derivedPort(name string) int {
	h := sha256.Sum256([]byte(name))
	return 20000 + int(binary.LittleEndian.Uint32(h[:])%12000)
}

// usesAgentStore reports whether what listens at MASTER_ADDR and MASTER_PORT is the store of torchrun's agents.
func usesAgentStore(env Environ) bool {
	s, _ := env("TORCHELASTIC_USE_AGENT_STORE")
	return strings.EqualFold(s, "true")
}
