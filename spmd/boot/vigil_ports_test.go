package boot

import (
	"slices"
	"testing"

	"perigee/spmd/host"
)

// A launcher in another PID namespace is watched at its ports on this host, whatever the host is called.
func TestLauncherPorts(t *testing.T) {
	const torchrun = "TORCHELASTIC_USE_AGENT_STORE=True LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 MASTER_PORT=29500 MASTER_ADDR="
	for _, c := range []struct {
		launcher, env string
		want          []int
	}{
		{"torchrun", torchrun + "127.0.0.1", []int{29500}}, {"torchrun", torchrun + "localhost", []int{29500}},
		{"torchrun", torchrun + host.Name(), []int{29500}}, {"torchrun", torchrun + host.Name() + ".cluster.invalid", []int{29500}},
		{"torchrun", torchrun + "0.0.0.0", []int{29500}}, {"torchrun", torchrun + "::", []int{29500}},
		{"torchrun", torchrun + "192.0.2.7", nil},
		{"torchrun", "LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 MASTER_PORT=29500 MASTER_ADDR=127.0.0.1", nil},
		{"torchrun", "TORCHELASTIC_USE_AGENT_STORE=True LOCAL_WORLD_SIZE=2 WORLD_SIZE=4 MASTER_PORT=29500 MASTER_ADDR=127.0.0.1", nil},
		{"pmix", "PMIX_SERVER_URI2=7.0;tcp4://127.0.0.1:58487", []int{58487}}, {"pmix", "PMIX_SERVER_URI2=7.0;usock:x", nil},
		{"slurm", "SLURM_STEP_LAUNCHER_PORT=4711 SLURM_LAUNCH_NODE_IPADDR=127.0.0.1", []int{4711}},
		{"slurm", "SLURM_STEP_LAUNCHER_PORT=4711 SLURM_LAUNCH_NODE_IPADDR=192.0.2.7", nil}, {"pmi1", "PMI_PORT=node1:7", nil},
	} {
		if got := launcherPorts(environ(vars(c.env)), c.launcher); !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %v, want %v", c.launcher, c.env, got, c.want)
		}
	}
}
