package boot

import (
	"cmp"
	"context"
	"errors"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot/pmix"
)

// EnvPMIxLibrary names the PMIx library where the loader does not find it.
const EnvPMIxLibrary = "PERIGEE_PMIX_LIBRARY"

// pmixServers are the variables by which servers of various versions say where
// they listen.
var pmixServers = []string{
	"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21", "PMIX_SERVER_URI2",
	"PMIX_SERVER_URI",
}

func detectPMIx(env Environ) (connect, error) {
	v := readVariables(env, "PMIX_RANK", "PMIX_NAMESPACE")
	if v.none() {
		return nil, nil
	}
	return requirePMIx(env)
}

func requirePMIx(env Environ) (connect, error) {
	v := readVariables(env, "PMIX_RANK", "PMIX_NAMESPACE")
	servers := readVariables(env, pmixServers...)
	if servers.none() {
		v.lack = append(v.lack, "PMIX_SERVER_URI4")
	}
	if err := v.incomplete("PMIx"); err != nil {
		return nil, err
	}
	if _, err := v.integer("PMIX_RANK", 0, MaxSize-1); err != nil {
		return nil, err
	}
	return joinStore("pmix", env, func(ctx context.Context) (store, error) { return openPMIx(ctx, env) }), nil
}

// pmixStore is a store.
type pmixStore struct {
	client           *pmix.Client
	rank, size       int
	local, localSize int
}

func openPMIx(ctx context.Context, env Environ) (*pmixStore, error) {
	path, _ := env(EnvPMIxLibrary)
	c, err := pmix.Open(ctx, cmp.Or(path, pmix.Library))
	if _, ok := errors.AsType[*pmix.LoadError](err); ok {
		return nil, fault.New(fault.Launch, "%w", err).
			WithHint("install PMIx (libpmix2), or name its library in %s, or start the ranks with srun --mpi=pmi2 or --mpi=none, mpiexec.hydra, or torchrun", EnvPMIxLibrary)
	}
	if err != nil {
		return nil, err
	}
	b := &pmixStore{client: c, rank: c.Rank(), local: -1}
	if b.size, err = c.JobNumber("pmix.job.size"); err != nil {
		return nil, err
	}
	if n, err := c.OwnNumber("pmix.lrank"); err == nil {
		b.local = n
	}
	if n, err := c.JobNumber("pmix.local.size"); err == nil {
		b.localSize = n
	}
	return b, nil
}

func (b *pmixStore) Rank() int                      { return b.rank }
func (b *pmixStore) Size() int                      { return b.size }
func (b *pmixStore) LocalRank() int                 { return b.local }
func (b *pmixStore) OneHost() bool                  { return b.localSize == b.size }
func (b *pmixStore) Put(key, value string) error    { return b.client.Put(key, value) }
func (b *pmixStore) Fence() error                   { return b.client.Fence() }
func (b *pmixStore) Get(key string) (string, error) { return b.client.Get(0, key) }
func (b *pmixStore) Done() error                    { return b.client.Close() }
