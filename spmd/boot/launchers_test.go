package boot

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/spmd/boot/watch"
	"perigee/spmd/spmdtest"
	"perigee/spmd/wire"
)

const (
	slurmEnv = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_LOCALID=1 SLURMD_NODENAME=n1 "
	pmi1Env  = "PMI_FD=6 PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 "
	pmi2Env  = "PMI_FD=6 PMI_RANK=1 PMI_SIZE=4 PMI_JOBID=7.0 "
	pmixEnv  = "PMIX_RANK=1 PMIX_NAMESPACE=x PMIX_SERVER_URI4=y "
	torchEnv = "RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500 "
	etcdEnv  = "NIXL_ETCD_NAMESPACE=/nixl/x PERIGEE_ETCD_RANKS=2 "
	localEnv = "PERIGEE_RANK=0 PERIGEE_SIZE=2 PERIGEE_CONTROL_FD=3 "
)

// oneTask are the variables of a step of Slurm with one task.
const oneTask = "SLURM_JOB_ID=7 SLURM_STEP_ID=3 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NODELIST=n1 SLURM_STEP_TASKS_PER_NODE=1 "

func TestDetectAmongSeveral(t *testing.T) {
	for env, want := range map[string]string{
		slurmEnv:                         "slurm",
		slurmEnv + pmi2Env:               "pmi2", // srun --mpi=pmi2
		slurmEnv + pmixEnv:               "pmix", // srun --mpi=pmix, mpirun in a Slurm job
		slurmEnv + pmi1Env:               "pmi1", // mpiexec.hydra in a Slurm job
		slurmEnv + pmi2Env + pmi1Env:     "pmi1", // and its proxies were started with --mpi=pmi2
		slurmEnv + pmi2Env + pmixEnv:     "pmix",
		pmi1Env:                          "pmi1",
		"PMI_FD=6 PMI_RANK=1 PMI_SIZE=4": "pmi1",
		"PMI_PORT=h:1 PMI_ID=3":          "pmi1",
		pmi2Env:                          "pmi2",
		pmixEnv:                          "pmix",
		torchEnv + slurmEnv:              "torchrun", // a script under srun that starts ranks
		torchEnv + "TORCHELASTIC_RUN_ID=1 " + slurmEnv + pmixEnv: "torchrun", // srun torchrun
		torchEnv + pmixEnv: "pmix",
		slurmEnv + "WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=1":        "slurm", // set in a job script for others
		localEnv + slurmEnv + pmi2Env + pmixEnv + torchEnv:           "local",
		"SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1":               "", // a batch script
		"SLURM_JOB_ID=7 SLURM_STEP_ID=4294967290 SLURM_PROCID=0":     "", // an interactive step
		"SLURM_JOB_ID=7 SLURM_NODELIST=n1":                           "", // salloc
		"PMI_RANK=1 PMI_SIZE=4":                                      "", // without a manager they mean nothing
		slurmEnv + pmixEnv + "PERIGEE_LAUNCHER=slurm":                "slurm",
		slurmEnv + pmixEnv + "PERIGEE_LAUNCHER=auto":                 "pmix",
		slurmEnv + pmi2Env + "PERIGEE_LAUNCHER=pmi2":                 "pmi2",
		pmi2Env + "PERIGEE_LAUNCHER=pmi1":                            "pmi1",
		torchEnv + pmixEnv + "PERIGEE_LAUNCHER=torchrun":             "torchrun",
		torchEnv + pmixEnv + "PERIGEE_LAUNCHER=pmix":                 "pmix",
		localEnv + slurmEnv + "PERIGEE_LAUNCHER=slurm":               "local", // our ranks know best
		localEnv + "PERIGEE_LAUNCHER=local":                          "local",
		strings.ReplaceAll(slurmEnv, "STEP_ID=0", "STEP_ID=") + "X=": "",

		etcdEnv:           "etcd",
		etcdEnv + oneTask: "etcd",
		etcdEnv + oneTask + pmi2Env + "PMI_JOBID=7.3": "etcd",  // srun --mpi=pmi2 --ntasks=1
		etcdEnv + slurmEnv:                            "slurm", // whose step has several tasks
		etcdEnv + pmi1Env:                             "pmi1",
		etcdEnv + localEnv:                            "local",
		etcdEnv + torchEnv + oneTask:                  "etcd", // what only sets torchrun's variables starts no ranks
		"NIXL_ETCD_NAMESPACE=/nixl/x ":                "",     // which NIXL reads, too
		"PERIGEE_ETCD_RANKS=2":                        "",
		etcdEnv + oneTask + "PERIGEE_LAUNCHER=slurm":  "slurm",
		etcdEnv + slurmEnv + "PERIGEE_LAUNCHER=etcd":  "etcd",
	} {
		name, ok, err := Started(environ(vars(env)))
		if err != nil || name != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, %v; want %q", env, name, ok, err, want)
		}
	}
}

func TestBrokenLaunchersAreNamed(t *testing.T) {
	for env, want := range map[string][]string{
		"SLURM_STEP_ID=0 SLURM_PROCID=1":                   {"Slurm's step is half set", "found SLURM_PROCID=1 SLURM_STEP_ID=0,", "not SLURM_JOB_ID SLURM_STEP_NUM_TASKS SLURM_STEP_NODELIST SLURM_STEP_TASKS_PER_NODE"},
		slurmEnv + "SLURM_STEP_NUM_TASKS=5":                {"contradict", "2 nodes with 4 tasks", "SLURM_STEP_NUM_TASKS=5"},
		slurmEnv + "SLURM_STEP_TASKS_PER_NODE=4":           {"2 nodes in SLURM_STEP_NODELIST=n[1-2], 1 nodes with 4 tasks"},
		slurmEnv + "SLURM_STEP_NODELIST=n[1-":              {"SLURM_STEP_NODELIST: host list", "not closed"},
		slurmEnv + "SLURM_STEP_TASKS_PER_NODE=2(x":         {"SLURM_STEP_TASKS_PER_NODE: tasks per node", "2(x"},
		slurmEnv + "SLURM_PROCID=4":                        {"SLURM_PROCID=4: want an integer from 0 to 3"},
		"PMI_FD=6 PMI_RANK=1":                              {"PMI-1 is half set", "not PMI_SIZE"},
		"PMI_FD=6 PMI_JOBID=1":                             {"PMI-2 is half set", "not PMI_RANK PMI_SIZE"},
		"PMI_FD=six PMI_RANK=1 PMI_SIZE=2":                 {"PMI_FD=six"},
		"PMI_PORT=h:1":                                     {"PMI-1 is half set", "not PMI_ID"},
		"PMI_PORT=h:1 PMI_ID=-1":                           {"PMI_ID=-1"},
		"PMIX_RANK=1 PMIX_SERVER_URI2=x":                   {"PMIx is half set", "not PMIX_NAMESPACE"},
		"PMIX_RANK=1 PMIX_NAMESPACE=x":                     {"PMIx is half set", "not PMIX_SERVER_URI"},
		pmixEnv + "PMIX_RANK=x":                            {"PMIX_RANK=x"},
		"TORCHELASTIC_RUN_ID=1 WORLD_SIZE=4 " + slurmEnv:   {"torchrun is half set", "not RANK MASTER_ADDR MASTER_PORT"},
		torchEnv + "PERIGEE_LAUNCHER=slurm":                {"Slurm's step has not started this process", "SLURM_JOB_ID"},
		"PERIGEE_LAUNCHER=pmix":                            {"PMIx has not started this process", "PMIX_RANK PMIX_NAMESPACE"},
		slurmEnv + "PERIGEE_LAUNCHER=torchrun":             {"torchrun has not started this process"},
		slurmEnv + "RANK=1 PERIGEE_LAUNCHER=torchrun":      {"torchrun is half set", "found RANK=1"},
		slurmEnv + "PERIGEE_LAUNCHER=pmi2":                 {"PMI-2 has not started this process"},
		slurmEnv + "PERIGEE_LAUNCHER=pmi1":                 {"PMI-1 has not started this process"},
		slurmEnv + "SLURM_STEP_ID=x SLURM_STEP_NUM_TASKS=": {"not SLURM_STEP_NUM_TASKS"},
		"PERIGEE_LAUNCHER=etcd":                            {"etcd has not started this process", "NIXL_ETCD_NAMESPACE PERIGEE_ETCD_RANKS"},
		etcdEnv + "PERIGEE_ETCD_RANKS=two":                 {"PERIGEE_ETCD_RANKS=two: want an integer from 1"},
		etcdEnv + "NIXL_ETCD_ENDPOINTS=https://h:2379":     {`NIXL_ETCD_ENDPOINTS: "https://h:2379"`, "want http://"},
		etcdEnv + "NIXL_ETCD_ENDPOINTS=h:1,http://":        {`"http://"`},
		etcdEnv + "NIXL_ETCD_ENDPOINTS=,":                  {"want host:port"},
	} {
		_, ok, err := Started(environ(vars(env)))
		checkFault(t, env, ok, err, want...)
	}
	_, _, err := Started(environ(vars("PERIGEE_LAUNCHER=mpi")))
	if fault.KindOf(err) != fault.Usage || !strings.Contains(fault.HintOf(err), strings.Join(Launchers(), ", ")) {
		t.Errorf("an unknown launcher: %v (%s)", err, fault.HintOf(err))
	}
}

func TestFirstNodes(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"", "n1"},
		{"SLURM_DISTRIBUTION=cyclic", "n1"},
		{"SLURM_DISTRIBUTION=plane", "n1"},
		{"SLURM_DISTRIBUTION=arbitrary", "n1 n2"},
		{"SLURM_STEP_TASKS_PER_NODE=0,4", "n2"},
		{"SLURM_STEP_NODELIST=n9,n[3-4] SLURM_STEP_TASKS_PER_NODE=2,1(x2)", "n9"},
	} {
		s, err := readSlurm(environ(vars(slurmEnv + c.env)))
		if err != nil || strings.Join(s.nodes, " ") != c.want {
			t.Errorf("%s: %v, %v; want %s", c.env, s, err, c.want)
		}
	}
}

func TestSlurmPorts(t *testing.T) {
	of := func(add string) []string {
		s, err := readSlurm(environ(vars(slurmEnv + add)))
		must.Do(t, err)
		return s.ports()
	}
	base := of("")
	if len(base) != slurmPorts || len(slices.Compact(slices.Sorted(slices.Values(base)))) != slurmPorts {
		t.Errorf("ports %v", base)
	}
	if other := of("SLURM_PROCID=0 SLURM_LOCALID=0 SLURMD_NODENAME=n2"); !cmp.Equal(other, base) {
		t.Errorf("another rank works out %v, not %v", other, base)
	}
	if other := of("SLURM_RESTART_COUNT=0"); !cmp.Equal(other, base) {
		t.Errorf("a job that was not requeued works out %v, not %v", other, base)
	}
	for _, change := range []string{"SLURM_JOB_ID=8", "SLURM_STEP_ID=1", "SLURM_RESTART_COUNT=1"} {
		if other := of(change); other[0] == base[0] {
			t.Errorf("%s: the same port", change)
		}
	}
}

// oneNode is the environment of a rank of a step on one node, whose ranks need
// no names.
func oneNode(rank, size int, job string) map[string]string {
	return map[string]string{
		"SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_PROCID": fmt.Sprint(rank), "SLURM_STEP_NUM_TASKS": fmt.Sprint(size),
		"SLURM_STEP_NODELIST": "n1", "SLURM_STEP_TASKS_PER_NODE": fmt.Sprint(size), "SLURMD_NODENAME": "n1", EnvSecret: "secret of the step " + job,
	}
}

// joinStep lets the ranks of a step on one node meet.
func joinStep(t *testing.T, envs []map[string]string) []error {
	ctx, cancel := context.WithTimeout(t.Context(), spmdtest.Patience)
	defer cancel()
	errs := make([]error, len(envs))
	var wg sync.WaitGroup
	for r, env := range envs {
		wg.Go(func() {
			p, err := Join(ctx, environ(env), Watcher{})
			if err != nil {
				errs[r] = err
				return
			}
			if p.Host != "n1" || p.Launcher != "slurm" || p.Listen != "127.0.0.1:0" {
				err = fmt.Errorf("%+v", p)
			}
			errs[r] = errors.Join(err, p.Put(ctx, nil), p.Fence(ctx), p.Leave(ctx))
		})
	}
	wg.Wait()
	return errs
}

// freeJob finds a job of one node whose ports are all free, and takes them.
func freeJob(t *testing.T) (job string, ports []string, taken []net.Listener) {
	t.Helper()
	for i := range 100 {
		job = strconv.Itoa(100*os.Getpid() + i)
		s, err := readSlurm(environ(oneNode(0, 3, job)))
		must.Do(t, err)
		ports, taken = s.ports(), nil
		for _, port := range ports {
			l, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err != nil {
				break
			}
			taken = append(taken, l)
		}
		if len(taken) == len(ports) {
			return job, ports, taken
		}
		for _, l := range taken {
			l.Close()
		}
	}
	t.Fatal("no job has free ports")
	return "", nil, nil
}

// Ranks find each other even if other programs have the first ports: one that is
// silent, one with another protocol, and a perigee with another secret.
func TestOccupiedPorts(t *testing.T) {
	job, ports, taken := freeJob(t)
	envs := []map[string]string{oneNode(0, 3, job), oneNode(1, 3, job), oneNode(2, 3, job)}
	for i, serve := range []func(net.Conn){
		func(net.Conn) {},
		func(c net.Conn) {
			fmt.Fprintf(c, "220 smtp.example.org ready, and here is some more text\r\n")
			c.Close()
		},
	} {
		defer taken[i].Close()
		go func() {
			for {
				c, err := taken[i].Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
				serve(c)
			}
		}()
	}
	taken[2].Close()
	listener, err := wire.Listen(wire.ListenerConfig{Address: taken[2].Addr().String(), Secret: []byte("another secret"), Enter: func(c net.Conn, _ int) { c.Close() }})
	must.Do(t, err)
	defer listener.Close()
	taken[3].Close()
	if err := errors.Join(joinStep(t, envs)...); err != nil {
		t.Error(err)
	}
	last, err := net.Listen("tcp", taken[3].Addr().String())
	must.Do(t, err)
	defer last.Close()
	_, err = Join(t.Context(), environ(envs[0]), Watcher{})
	checkFault(t, "all occupied", false, err, "cannot listen on port "+strings.Join(ports, ", "))
}

// fakeMunge puts programs munge and unmunge into the path. Their credentials
// are MUNGE:uid:payload:.
func fakeMunge(t *testing.T, munge, unmunge string) {
	dir := t.TempDir()
	for name, text := range map[string]string{"munge": munge, "unmunge": unmunge} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700))
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

const (
	goodMunge   = `[ "$1" = --restrict-uid ] || exit 3; printf 'MUNGE:%s:%s:\n' "$2" "$(cat)"`
	goodUnmunge = `IFS=: read -r _ uid payload _; printf 'UID:       %s\n\n%s' "$uid" "$payload"`
)

func TestMungeCarriesTheSecret(t *testing.T) {
	for name, c := range map[string]struct{ munge, unmunge, want, hint string }{
		"well":                     {goodMunge, goodUnmunge, "", ""},
		"replayed":                 {goodMunge, goodUnmunge + "; exit 17", "", ""},
		"no daemon":                {"echo 'munge: Error: Failed to access \"/run/munge/munge.socket.2\"' >&2; exit 6", "exit 6", "munge cannot carry one", "export " + EnvSecret + "="},
		"no daemon, there":         {goodMunge, "echo 'unmunge: Error: Failed to access socket' >&2; exit 6", "munge cannot carry one", "export " + EnvSecret + "="},
		"another user's":           {goodMunge, `printf 'UID:  12345\n\nc2VjcmV0'`, "does not know this job's secret: its credential is of user 12345", ""},
		"for another user":         {goodMunge, `echo 'unmunge: Error: Unauthorized credential for client UID=1' >&2; exit 18`, "its credential is not for this user", ""},
		"empty":                    {goodMunge, fmt.Sprintf(`printf 'UID: %d\n\n'`, os.Geteuid()), "holds no secret of this step", ""},
		"made for another purpose": {"echo c2VjcmV0", fmt.Sprintf(`printf 'UID: %d\n\n'; cat`, os.Geteuid()), "holds no secret of this step", ""},
		"of another step": {
			goodMunge, fmt.Sprintf(`printf 'UID: %d\n\nperigee secret of step 915.0 is c2VjcmV0'`, os.Geteuid()),
			"holds no secret of this step", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fakeMunge(t, c.munge, c.unmunge)
			envs := []map[string]string{oneNode(0, 2, "912"), oneNode(1, 2, "912")}
			for _, e := range envs {
				delete(e, EnvSecret)
			}
			if c.want == "" {
				if err := errors.Join(joinStep(t, envs)...); err != nil {
					t.Error(err)
				}
				return
			}
			m, err := findMunge(environ(nil), "916.0")
			must.Do(t, err)
			letter, err := m.seal(t.Context(), []byte("secret"))
			if err == nil {
				_, err = m.open(t.Context(), letter())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.HintOf(err), c.hint) {
				t.Errorf("%v (%s)", err, fault.HintOf(err))
			}
			if stranger := errors.Is(err, wire.ErrProof); stranger == (c.hint != "") {
				t.Errorf("%v: an answer of a stranger: %v", err, stranger)
			}
		})
	}
}

func TestNoMungeAtAll(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	env := oneNode(1, 2, "913")
	delete(env, EnvSecret)
	_, err := Join(t.Context(), environ(env), Watcher{})
	checkFault(t, "no munge", false, err, "no secret", "munge")
	// One rank alone needs none.
	env = oneNode(0, 1, "914")
	delete(env, EnvSecret)
	if err := errors.Join(joinStep(t, []map[string]string{env})...); err != nil {
		t.Error(err)
	}
}

// Ranks that were given the secret and ranks that were not do not go together.
func TestHalfGivenSecret(t *testing.T) {
	fakeMunge(t, goodMunge, goodUnmunge)
	with, without := oneNode(0, 2, "915"), oneNode(1, 2, "915")
	delete(without, EnvSecret)
	ctx, cancel := context.WithTimeout(t.Context(), spmdtest.Patience)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if p, err := Join(ctx, environ(with), Watcher{}); err == nil {
			<-ctx.Done()
			p.Abort(watch.Failure{Rank: 0})
			p.Leave(ctx)
		}
	})
	// It goes on trying: another program may have one of the ports.
	_, err := Join(ctx, environ(without), Watcher{Log: spmdtest.Cues{wire.ErrNoChallenge.Error(): cancel}.Logger()})
	wg.Wait()
	checkFault(t, "half given", false, err, "was given the job's secret, the other was not")
}

func FuzzSecretIn(f *testing.F) {
	uid := os.Geteuid()
	const mark = "perigee secret of step 1.0 is "
	f.Add(fmt.Sprintf("UID:      %d\n\n%s%s", uid, mark, base64.StdEncoding.EncodeToString([]byte("s"))))
	f.Add("UID: 1\n\nQQ==")
	f.Add("\n\n")
	users := []string{fmt.Sprint(uid), fmt.Sprint(uid, 1), fmt.Sprint(1, uid), fmt.Sprint(uid + 1), "-1", "", fmt.Sprint(uid, " 1")}
	f.Fuzz(func(t *testing.T, out string) {
		if s, err := secretIn(out, mark); err == nil && (len(s) == 0 || !strings.Contains(out, mark) || !strings.Contains(out, fmt.Sprint(uid))) {
			t.Fatalf("%q holds %q", out, s)
		}
		random := fuzztest.Random([]byte(out))
		user, secret := users[random.IntN(len(users))], fuzztest.Bytes(random, 40)
		text := "STATUS:          Success (0)\nENCODE_HOST:     node1 (10.0.0.1)\nUID:             " + user + "\nGID:             " +
			fmt.Sprint(uid) + "\nLENGTH:          44\n\n" + mark + base64.StdEncoding.EncodeToString(secret)
		got, err := secretIn(text, mark)
		if own := user == fmt.Sprint(uid) && len(secret) > 0; own != (err == nil) || own && !bytes.Equal(got, secret) {
			t.Fatalf("%q holds %q, %v", text, got, err)
		}
	})
}

func addresses(pairs ...string) []hostAddress {
	var all []hostAddress
	for _, p := range pairs {
		iface, ip, _ := strings.Cut(p, " ")
		all = append(all, hostAddress{iface, netip.MustParseAddr(ip)})
	}
	return all
}

func TestOrderOfAddresses(t *testing.T) {
	all := addresses("lo 127.0.0.1", "lo ::1", "docker0 172.17.0.1", "eth0 fd00::5", "eth0 fe80::1", "eth0 10.0.0.5", "virbr0 192.168.122.1", "ib0 10.1.0.5", "br-1a2b 172.18.0.1")
	for iface, want := range map[string]string{
		"":            "10.0.0.5 10.1.0.5 fd00::5 172.17.0.1 192.168.122.1 172.18.0.1",
		"eth0":        "10.0.0.5 fd00::5",
		"ib0":         "10.1.0.5",
		"docker0":     "172.17.0.1",
		"lo":          "127.0.0.1 ::1",
		"10.1.0.5":    "10.1.0.5",
		"10.0.0.0/15": "10.0.0.5 10.1.0.5",
		"fd00::/16":   "fd00::5",
		"::1":         "::1",
		"127.0.5.1":   "127.0.5.1", // all of 127.0.0.0/8 is everybody's
		"eth1":        "",
		"10.9.0.0/16": "",
		"10.0.0.6":    "",
		"fe80::1":     "",
	} {
		got := orderAddresses(all)
		if iface != "" {
			got = choose(all, iface)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", iface, got, want)
		}
	}
	if got := orderAddresses(addresses("lo ::1", "lo 127.0.0.1", "eth0 fe80::1")); strings.Join(got, " ") != "127.0.0.1 ::1" {
		t.Errorf("without a network: %v", got)
	}
	_, err := chosenIPs(all, "eth1")
	checkFault(t, "eth1", false, err, "eth1 on ", "means no address", "docker0 172.17.0.1", "eth0 10.0.0.5")
}

func TestLocalhost(t *testing.T) {
	for _, c := range []struct{ has, want string }{
		{"", "127.0.0.1"}, {"lo 127.0.0.1", "127.0.0.1"}, {"lo 127.0.0.1,lo ::1", "127.0.0.1"},
		{"lo ::1", "::1"}, {"eth0 10.0.0.5,lo ::1", "::1"}, {"eth0 fd00::5", "127.0.0.1"},
	} {
		var pairs []string
		if c.has != "" {
			pairs = strings.Split(c.has, ",")
		}
		if got := localhostOf(addresses(pairs...)); got != c.want {
			t.Errorf("%q: %s, want %s", c.has, got, c.want)
		}
	}
}

func TestListenFor(t *testing.T) {
	for _, c := range []struct{ ips, listen, reachable string }{
		{"10.0.0.5", "10.0.0.5", "10.0.0.5"},
		{"10.0.0.5 fd00::5", "", "10.0.0.5 fd00::5"},
		{"127.0.0.1 ::1", "127.0.0.1", "127.0.0.1"},
		{"::1", "::1", "::1"},
	} {
		listen, reachable := listenFor(strings.Fields(c.ips))
		if listen != c.listen || strings.Join(reachable, " ") != c.reachable {
			t.Errorf("%s: listen on %q, reachable at %v", c.ips, listen, reachable)
		}
	}
}
