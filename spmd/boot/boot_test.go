package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd/boot/watch"
	"perigee/spmd/spmdtest"
	"perigee/spmd/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func environ(vars map[string]string) Environ {
	return func(k string) (string, bool) { v, ok := vars[k]; return v, ok }
}

// vars reads "A=1 B=2".
func vars(s string) map[string]string {
	m := map[string]string{}
	for f := range strings.FieldsSeq(s) {
		k, v, _ := strings.Cut(f, "=")
		m[k] = v
	}
	return m
}

func TestDetect(t *testing.T) {
	const torch = "RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500 "
	const local = "PERIGEE_RANK=0 PERIGEE_SIZE=2 PERIGEE_CONTROL_FD=3 "
	for env, want := range map[string]string{
		"":                              "",
		"RANK=3":                        "",
		"MASTER_PORT=1":                 "",
		"RANK=3 MASTER_PORT=1":          "",
		"MASTER_ADDR=h MASTER_PORT=1":   "", // job scripts set these before the ranks start
		"HOME=/ PATH=/bin WORLD_SIZE=":  "",
		torch:                           "torchrun",
		torch + "LOCAL_RANK=3":          "torchrun",
		torch + "LOCAL_RANK=":           "torchrun",
		local:                           "local",
		torch + local:                   "local", // ours may run under another launcher
		local + "WORLD_SIZE=2":          "local",
		"PERIGEE_SECRET=x PERIGEE_FOO=": "",
		"PERIGEE_SECRET=x RANK=":        "",
	} {
		name, ok, err := Started(environ(vars(env)))
		if err != nil || name != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, %v; want %q", env, name, ok, err, want)
		}
	}
}

// What only sets torchrun's variables has not started a rank, and neither has what the user says has not.
func TestRankOf(t *testing.T) {
	const torch = "RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500 "
	const task = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 "
	const hydra = "PMI_FD=1000000 PMI_RANK=1 PMI_SIZE=2 "
	const pmix = "PMIX_RANK=1 PMIX_SERVER_URI4=x;tcp4://127.0.0.1:1 PMIX_NAMESPACE="
	for _, c := range []struct {
		env, want string
		slurms    bool
	}{
		{"", "", false},
		{torch, "", false},
		{torch + "PERIGEE_LAUNCHER=torchrun", "", false},
		{torch + "TORCHELASTIC_RUN_ID=x", "torchrun", false},
		{"PERIGEE_RANK=0", "local", false}, // broken, but this is what it is
		{"PERIGEE_RANK=0 PERIGEE_SIZE=2 PERIGEE_CONTROL_FD=3 PERIGEE_LAUNCHER=local", "local", false},
		{task, "slurm", true},
		{task + torch, "slurm", true},
		{task + "PERIGEE_LAUNCHER=local", "", false},
		{"SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291 SLURM_PROCID=0", "", false}, // a batch script
		{task + hydra + "PMI_JOBID=7.0", "pmi2", true},
		{task + pmix + "slurm.pmix.7.0", "pmix", true},
		{task + hydra, "pmi1", false},
		{task + pmix + "slurm.pmix.7.0 TORCHELASTIC_RUN_ID=x " + torch, "torchrun", false},
		{pmix + "prterun-h-1@1", "pmix", false},
		{"SLURM_JOB_ID=7 SLURM_STEP_ID=0 " + hydra + "PMI_JOBID=6.0", "", false}, // a batch script that a step has submitted
		{"SLURM_JOB_ID=7 SLURM_STEP_ID=0 " + pmix + "slurm.pmix.6.0", "", false},
	} {
		if got, slurms := RankOf(environ(vars(c.env))); got != c.want || slurms != c.slurms {
			t.Errorf("%s: %q, %v; want %q, %v", c.env, got, slurms, c.want, c.slurms)
		}
	}
}

func TestBrokenEnvironmentsAreNamed(t *testing.T) {
	for env, want := range map[string][]string{
		"WORLD_SIZE=4":                                  {"torchrun", "found WORLD_SIZE=4,", "not RANK MASTER_ADDR MASTER_PORT"},
		"WORLD_SIZE=4 RANK=1":                           {"found RANK=1 WORLD_SIZE=4,", "not MASTER_ADDR MASTER_PORT"},
		"RANK=1 MASTER_ADDR=h MASTER_PORT=5":            {"found MASTER_ADDR=h MASTER_PORT=5 RANK=1,", "not WORLD_SIZE"},
		"RANK=1 MASTER_ADDR=h MASTER_PORT=5 WORLD_SIZE": {"not WORLD_SIZE"},
		"PERIGEE_RANK=0":                                {"perigee run", "found PERIGEE_RANK=0,", "not PERIGEE_SIZE PERIGEE_CONTROL_FD"},
		"PERIGEE_SIZE=2 PERIGEE_RANK=0":                 {"not PERIGEE_CONTROL_FD"},
		// A broken first launcher hides a sound second one: the variables were tampered with.
		"PERIGEE_RANK=0 RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=5": {"perigee run"},
	} {
		_, ok, err := Started(environ(vars(env)))
		checkFault(t, env, ok, err, want...)
	}
	torch := vars("RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500")
	local := vars("PERIGEE_RANK=0 PERIGEE_SIZE=2 PERIGEE_CONTROL_FD=3")
	for _, c := range []struct {
		base       map[string]string
		key, value string
		want       string
	}{
		{torch, "RANK", "4", "RANK=4: want an integer from 0 to 3"},
		{torch, "RANK", "-1", "RANK=-1: want an integer from 0 to 3"},
		{torch, "RANK", "one", "RANK=one: want an integer"},
		{torch, "RANK", "1 ", "RANK=1 : want an integer"},
		{torch, "WORLD_SIZE", "0", "WORLD_SIZE=0: want an integer from 1"},
		{torch, "WORLD_SIZE", "99999999999999999999", "WORLD_SIZE=9999"},
		{torch, "WORLD_SIZE", "1048577", "want an integer from 1 to 1048576"},
		{torch, "MASTER_PORT", "0", "MASTER_PORT=0: want an integer from 1 to 65535"},
		{torch, "MASTER_PORT", "65536", "MASTER_PORT=65536"},
		{torch, "MASTER_PORT", "http", "MASTER_PORT=http"},
		{torch, "LOCAL_RANK", "4", "LOCAL_RANK=4: want an integer from 0 to 3"},
		{torch, "LOCAL_RANK", "x", "LOCAL_RANK=x"},
		{local, "PERIGEE_RANK", "2", "PERIGEE_RANK=2: want an integer from 0 to 1"},
		{local, "PERIGEE_SIZE", "many", "PERIGEE_SIZE=many"},
		{local, "PERIGEE_CONTROL_FD", "2", "PERIGEE_CONTROL_FD=2: want an integer from 3"},
	} {
		env := maps.Clone(c.base)
		env[c.key] = c.value
		_, ok, err := Started(environ(env))
		checkFault(t, c.key+"="+c.value, ok, err, c.want)
	}
}

func checkFault(t *testing.T, what string, ok bool, err error, want ...string) {
	t.Helper()
	if ok || fault.KindOf(err) != fault.Launch {
		t.Errorf("%q: started %v, error %v", what, ok, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q: %q lacks %q", what, err, w)
		}
	}
}

func TestJoinWithoutLauncher(t *testing.T) {
	_, err := Join(t.Context(), environ(nil), Watcher{})
	checkFault(t, "nothing", false, err, "not started as a rank")
	if fault.HintOf(err) == "" {
		t.Error("no hint")
	}
}

func TestLocalDescriptorMustBeAConnection(t *testing.T) {
	var fds [2]int
	must.Do(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	defer unix.Close(fds[1])
	env := vars(fmt.Sprintf("PERIGEE_RANK=0 PERIGEE_SIZE=2 PERIGEE_CONTROL_FD=%d", fds[0]))
	_, err := Join(t.Context(), environ(env), Watcher{}) // closes fds[0]
	checkFault(t, "pipe", false, err, "PERIGEE_CONTROL_FD", "not a connection to a launcher")
}

// rendezvousOf is what torchrun's variables say.
func rendezvousOf(t *testing.T, env map[string]string) rendezvous {
	t.Helper()
	r, err := readTorchrun(environ(env))
	if err != nil || r == nil {
		t.Fatalf("%v: %v, %v", env, r, err)
	}
	return *r
}

func portOf(t *testing.T, env map[string]string) int {
	t.Helper()
	r := rendezvousOf(t, env)
	_, listen, _ := net.SplitHostPort(r.listen[0])
	host, meet, _ := net.SplitHostPort(r.meet[0])
	port, err := strconv.Atoi(listen)
	if err != nil || meet != listen || host != env["MASTER_ADDR"] {
		t.Fatalf("rank 0 listens at %s, the others look for it at %s", r.listen, r.meet)
	}
	return port
}

func TestAgentStoreTakesThePort(t *testing.T) {
	base := vars("RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500 TORCHELASTIC_RUN_ID=a")
	with := func(key, value string) map[string]string {
		env := maps.Clone(base)
		env["TORCHELASTIC_USE_AGENT_STORE"] = "True"
		env[key] = value
		return env
	}
	if p := portOf(t, base); p != 29500 {
		t.Errorf("without an agent's store: port %d", p)
	}
	if p := portOf(t, with("TORCHELASTIC_USE_AGENT_STORE", "False")); p != 29500 {
		t.Errorf("the agent has no store: port %d", p)
	}
	derived := portOf(t, with("RANK", "1"))
	if derived == 29500 || derived < 20000 || derived >= 32000 {
		t.Errorf("derived port %d", derived)
	}
	if p := portOf(t, with("RANK", "0")); p != derived {
		t.Errorf("rank 0 works out port %d, rank 1 %d", p, derived)
	}
	for key, value := range map[string]string{"TORCHELASTIC_RUN_ID": "b", "MASTER_PORT": "29501", "MASTER_ADDR": "h.example"} {
		if p := portOf(t, with(key, value)); (p == derived) != (key == "MASTER_ADDR") { // hosts may write it in several ways
			t.Errorf("with another %s the port is %d, and %d before", key, p, derived)
		}
	}
}

// Another program at MASTER_PORT is not rank 0 that does not run.
func TestPortOfAnotherProgram(t *testing.T) {
	for _, says := range []string{"220 smtp.example.org ready, and here is some more text\r\n", ""} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Do(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			for n := 0; ; n++ {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, says)
				c.Close()
				if n == 1 { // the rank has seen how the first ended
					cancel()
				}
			}
		})
		_, port, _ := net.SplitHostPort(l.Addr().String())
		env := vars("RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 PERIGEE_SECRET=0123456789abcdef MASTER_PORT=" + port)
		_, err = Join(ctx, environ(env), Watcher{})
		checkFault(t, says, false, err, "rank 1 cannot reach rank 0 at 127.0.0.1:"+port)
		if hint := fault.HintOf(err); !strings.HasPrefix(hint, "who listens there does not answer as rank 0 does: is rank 0 stopped? Otherwise choose another MASTER_PORT") {
			t.Errorf("%q: hint %s", says, hint)
		}
		l.Close()
		done.Wait()
	}
}

// secretOf is how a rank under torchrun gets the job's secret.
func secretOf(t *testing.T, env map[string]string) rendezvous {
	t.Helper()
	r := rendezvousOf(t, env)
	must.Do(t, r.agreeOnSecret(environ(env)))
	return r
}

func TestSecretsOfTorchrun(t *testing.T) {
	base := "RANK=1 WORLD_SIZE=4 MASTER_PORT=29500 MASTER_ADDR="
	given := EnvSecret + "=" + strings.Repeat("s", minSecret)
	if r := secretOf(t, vars(base+"h "+given)); string(r.secret) != strings.Repeat("s", minSecret) || r.seal != nil {
		t.Errorf("secret %q, sealed %v", r.secret, r.seal)
	}
	for _, oneHost := range []string{base + "127.0.0.1", base + "localhost", base + "h LOCAL_WORLD_SIZE=4"} {
		a, b := secretOf(t, vars(oneHost)), secretOf(t, vars(oneHost))
		if _, sealed := a.seal.(*sameUser); !sealed || bytes.Equal(a.secret, b.secret) {
			t.Errorf("%s: sealed %v, secrets %x and %x", oneHost, sealed, a.secret, b.secret)
		}
	}
	if r := secretOf(t, vars("RANK=0 WORLD_SIZE=1 MASTER_PORT=29500 MASTER_ADDR=h")); len(r.secret) != secretSize {
		t.Errorf("one rank alone: secret %x", r.secret)
	}
	for env, want := range map[string]string{
		base + "h":                                    EnvSecret + " is not set, and MASTER_ADDR=h may be another host",
		base + "h LOCAL_WORLD_SIZE=2":                 EnvSecret + " is not set",
		base + "h " + EnvSecret + "=a":                EnvSecret + " has 1 characters",
		base + "127.0.0.1 " + EnvSecret + "=password": EnvSecret + " has 8 characters",
	} {
		_, err := Join(t.Context(), environ(vars(env)), Watcher{})
		checkFault(t, env, false, err, want)
		if !strings.Contains(fault.HintOf(err), "openssl rand") {
			t.Errorf("%s: hint %q", env, fault.HintOf(err))
		}
	}
}

// One rank of a host says what all of them find; where it is not known which is the first, each does.
func TestLeftToAnother(t *testing.T) {
	const base = "RANK=1 WORLD_SIZE=4 MASTER_PORT=29500 MASTER_ADDR=h"
	for env, want := range map[string]bool{base: false, base + " LOCAL_RANK=0": false, base + " LOCAL_RANK=1": true} {
		_, err := Join(t.Context(), environ(vars(env)), Watcher{})
		if err == nil || LeftToAnother(err) != want {
			t.Errorf("%s: %v is left to another: %t, want %t", env, err, !want, want)
		}
	}
	if LeftToAnother(errors.New("of one rank")) {
		t.Error("any error is left to another")
	}
}

// Where localhost is ::1, too, ranks look for rank 0 where it listens: another program may have the port there.
func TestMeetAtLocalhost(t *testing.T) {
	for _, host := range []string{"localhost", "LOCALHOST", "127.0.0.1", "::1", "node1 LOCAL_WORLD_SIZE=2"} {
		r := rendezvousOf(t, vars("RANK=1 WORLD_SIZE=2 MASTER_PORT=29500 MASTER_ADDR="+host))
		if !slices.Equal(r.meet, r.listen) {
			t.Errorf("%s: rank 0 listens at %q, the others look at %q", host, r.listen, r.meet)
		}
	}
}

// The host of rank 0, or of the agents' store, may be localhost there, while other hosts call it by its name. Where no
// other host can join, for lack of a secret, rank 0 shows itself to none.
func TestLocalhostOfSeveralHosts(t *testing.T) {
	const base, secret, store = "RANK=0 WORLD_SIZE=2 MASTER_PORT=29500 MASTER_ADDR=localhost ", "PERIGEE_SECRET=0123456789abcdef ",
		"TORCHELASTIC_USE_AGENT_STORE=True "
	for variables, elsewhere := range map[string]bool{
		secret + "WORLD_SIZE=1": false,
		secret:                  true, secret + "LOCAL_WORLD_SIZE=1": true, secret + "LOCAL_WORLD_SIZE=2": false, "LOCAL_WORLD_SIZE=1": false, "": false,
	} {
		for _, store := range []string{"", store} {
			r := rendezvousOf(t, vars(base+store+variables))
			listen, _, _ := net.SplitHostPort(r.listen[0])
			meet, _, _ := net.SplitHostPort(r.meet[0])
			ips, err := r.linkIPs(meet)
			if err != nil || loopback(meet) == "" || (listen == "") != elsewhere || (r.agents != nil) != (elsewhere && store != "") {
				t.Errorf("%s%s: %+v, links at %q, %v", variables, store, r, ips, err)
			}
			if own, _ := hostIPs("", ""); (ips[0] == own[0]) != elsewhere && loopback(own[0]) == "" {
				t.Errorf("%s%s: links at %q", variables, store, ips)
			}
		}
	}
}

// What is left of the attempt before does not belong to this one, where one agent counts them.
func TestRestartsOfTorchrun(t *testing.T) {
	for variables, same := range map[string]bool{"LOCAL_WORLD_SIZE=2 ": false, "LOCAL_WORLD_SIZE=1 ": true} {
		of := func(restart string) (job, port string) {
			r := rendezvousOf(t, vars("RANK=1 WORLD_SIZE=2 MASTER_PORT=29500 MASTER_ADDR=h TORCHELASTIC_USE_AGENT_STORE=True "+variables+"TORCHELASTIC_RESTART_COUNT="+restart))
			_, port, _ = net.SplitHostPort(r.meet[0])
			return r.job, port
		}
		first, port := of("0")
		job, derived := of("1")
		again, _ := of("1")
		if (job == first) != same || (port == derived) != same || job != again {
			t.Errorf("%s: %q at %s, %q at %s", variables, first, port, job, derived)
		}
	}
}

// Where rank 0 waits for ranks a proof of the job's secret that is meant for another place is none.
func TestLinksOfOtherPlaces(t *testing.T) {
	r := rendezvous{launcher: "test", size: 2, secret: []byte("secret"), oneHost: true}
	_, leader, meet, err := r.openAnywhere(t.Context())
	must.Do(t, err)
	defer leader.Close()
	if _, err := wire.Dial(t.Context(), meet[0], r.secret, 1, 0); !errors.Is(err, wire.ErrProof) {
		t.Errorf("the proof of a link: %v", err)
	}
	conn, err := wire.Dial(t.Context(), meet[0], MeetingSecret(r.secret, ""), 1, 0)
	must.Do(t, err)
	conn.Close()
}

// A rank that a relay leads to rank 0 of another job of the same user can read that job's secret, and is not let in.
func TestLedToAnotherJob(t *testing.T) {
	job := func(env string) *rendezvous {
		t.Helper()
		all := environ(vars("RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 " + env))
		r, err := readTorchrun(all)
		if err == nil {
			err = r.agreeOnSecret(all)
		}
		must.Do(t, err)
		return r
	}
	_, leader, meet, err := job("RANK=0").openAnywhere(t.Context())
	must.Do(t, err)
	defer leader.Close()
	for _, other := range []string{"MASTER_PORT=29501", "MASTER_ADDR=127.0.0.2", "TORCHELASTIC_RUN_ID=2"} {
		r := job(other)
		r.meet = meet
		if _, err := r.probe(t.Context()); !errors.Is(err, wire.ErrProof) {
			t.Errorf("%s: %v, want %v", other, err, wire.ErrProof)
		}
	}
	a, errA := readSlurm(environ(vars(slurmEnv)))
	b, errB := readSlurm(environ(vars(slurmEnv + "SLURM_STEP_ID=1")))
	must.Do(t, errors.Join(errA, errB))
	secret := newSecret()
	if bytes.Equal(MeetingSecret(secret, a.name()), MeetingSecret(secret, b.name())) {
		t.Error("two steps of Slurm have one proof")
	}
	same := job("MASTER_ADDR=localhost")
	same.meet = meet
	link, err := same.probe(t.Context())
	if err != nil {
		t.Fatal("the job's own rank: ", err)
	}
	link.Close()
}

// A stranger at the first of several ports cannot pass on what is meant for rank 0 to the port where it listens: the
// stranger could end that when it likes.
func TestStrangerBetweenThePorts(t *testing.T) {
	port := spmdtest.FreePort(t)
	own := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	taken := spmdtest.Alter(t, own, -1, -1, 0)
	r := rendezvous{launcher: "test", size: 2, secret: newSecret(), oneHost: true, listen: []string{taken, own}, meet: []string{taken, own}}
	_, leader, err := r.lead(t.Context())
	must.Do(t, err)
	defer leader.Close()
	r.rank = 1
	link, err := r.probe(t.Context())
	must.Do(t, err)
	defer link.Close()
	if got := link.RemoteAddr().String(); got != own {
		t.Errorf("met at %s, want %s", got, own)
	}
}

// A byte of a handshake that is altered on the way keeps no rank out; where it happens again, the error names it beside
// the secret.
func TestAlteredHandshake(t *testing.T) {
	const magic, nonce, length = 8, 32, 2
	for _, c := range []struct {
		name     string
		up, down int // which byte of a connection's to alter, by direction; -1 is none
		times    int // of how many connections
		want     string
	}{
		{"nonce of rank 0", -1, magic, 1, ""},
		{"rank", 0, -1, 1, ""},
		{"proof of the rank", 2*4 + nonce, -1, 1, ""},
		{"proof of rank 0", -1, magic + nonce + length, 1, ""},
		{"twice", -1, magic + nonce + length, 2, "rank 1 was turned away by rank 0 at %s: the peer does not know this job's secret, or the handshake was altered on the way"},
	} {
		t.Run(c.name, func(t *testing.T) {
			followThrough(t, c.name, c.want, func(to string) string { return spmdtest.Alter(t, to, c.up, c.down, c.times) })
		})
	}
}

// followThrough lets rank 1 of two join by another address than that of rank 0, and leave. want is the error of joining
// with that address in it, "" for none.
func followThrough(t *testing.T, name, want string, through func(to string) (address string)) {
	t.Helper()
	r := rendezvous{launcher: "test", size: 2, secret: []byte("0123456789abcdef"), oneHost: true}
	_, leader, meet, err := r.openAnywhere(t.Context())
	must.Do(t, err)
	defer leader.Close()
	r.rank, r.meet = 1, []string{through(meet[0])}
	p, err := r.follow(t.Context())
	if want != "" {
		checkFault(t, name, false, err, fmt.Sprintf(want, r.meet[0]))
		return
	}
	must.Do(t, err)
	p.Put(t.Context(), nil)
	if err := p.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// A rank that is interrupted while it looks for rank 0 reports that, so that the others do not wait for it.
func TestInterruptedBeforeTheMeeting(t *testing.T) {
	defer func(limit time.Duration) { lastTry = limit }(lastTry)
	lastTry = spmdtest.Patience
	port := spmdtest.FreePort(t)
	join := func(ctx context.Context, rank int, w Watcher) (*Process, error) {
		env := vars(fmt.Sprintf("RANK=%d WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 PERIGEE_SECRET=0123456789abcdef MASTER_PORT=%d", rank, port))
		return Join(ctx, environ(env), w)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	var leader *Process
	var err error
	cues := spmdtest.Cues{"no rank 0 yet": func() {
		interrupt(fault.New(fault.Interrupt, "ended by signal: interrupt"))
		leader, err = join(t.Context(), 0, Watcher{})
	}}
	_, interrupted := join(ctx, 1, Watcher{Log: cues.Logger()})
	must.Do(t, err)
	if fault.KindOf(interrupted) != fault.Interrupt {
		t.Errorf("rank 1: %v", interrupted)
	}
	leader.Put(t.Context(), nil)
	told := watch.FailureOf(leader.Fence(t.Context()))
	if told.Rank != 1 || told.Kind != fault.Interrupt || told.Cause != "rank 1 had not met the others: ended by signal: interrupt" {
		t.Errorf("rank 0 is told %+v", told)
	}
	leader.Leave(t.Context())
}

// When all ranks have come no other process is let in.
func TestShutWhenComplete(t *testing.T) {
	port := spmdtest.FreePort(t)
	processes := make([]*Process, 2)
	var wg sync.WaitGroup
	for rank := range processes {
		wg.Go(func() {
			env := vars(fmt.Sprintf("RANK=%d WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%d", rank, port))
			p, err := Join(t.Context(), environ(env), Watcher{})
			if err == nil {
				processes[rank] = p
				err = errors.Join(p.Put(t.Context(), []byte("card")), p.Fence(t.Context()))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	for deadline := time.Now().Add(spmdtest.Patience); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the port at which the ranks met is still open")
		}
	}
	for _, p := range processes {
		wg.Go(func() {
			if err := p.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Only a memory file of this name is read, no matter which process answers at rank 0's address.
func TestSecretOfTheSameUser(t *testing.T) {
	secret := newSecret()
	s := &sameUser{}
	challenge, err := s.seal(t.Context(), secret)
	must.Do(t, err)
	defer s.Close()
	if got, err := s.open(t.Context(), challenge()); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("got %x, %v; want %x", got, err, secret)
	}
	other, err := os.CreateTemp(t.TempDir(), "memfd:"+secretFile+" ")
	must.Do(t, err)
	defer other.Close()
	for _, bad := range []string{"", "x", "1", "0 0", "-1 3", "1 ../../etc/passwd", fmt.Sprint(os.Getpid(), " ", other.Fd()), "999999999 1", "1 0"} {
		if got, err := s.open(t.Context(), []byte(bad)); !errors.Is(err, wire.ErrProof) {
			t.Errorf("%q: got %x, %v", bad, got, err)
		}
	}
}

// A file whose name looks like that of a memory file is none, also if this user owns it.
func TestSecretInAFile(t *testing.T) {
	f, err := os.CreateTemp("/", "memfd:"+secretFile+" *")
	if err != nil {
		t.Skip("only root may make files there, and only strangers of root's ranks can mount one: ", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if got, err := new(sameUser).open(t.Context(), fmt.Appendf(nil, "%d %d", os.Getpid(), f.Fd())); !errors.Is(err, wire.ErrProof) {
		t.Errorf("got %x, %v", got, err)
	}
}

func TestFailureKeepsKindAndHint(t *testing.T) {
	f := watch.Failure{Rank: 3, Host: "node7", Phase: "measure", Kind: fault.Corrupt, Cause: "17 bytes differ", Hint: "look at the cable"}
	if want := "rank 3 on node7, phase measure: 17 bytes differ"; f.Error() != want {
		t.Errorf("got %q, want %q", f.Error(), want)
	}
	for _, err := range []error{f, fmt.Errorf("wrapped: %w", f), f.Fault()} {
		if fault.KindOf(err) != fault.Corrupt || fault.HintOf(err) != f.Hint || watch.FailureOf(err) != f {
			t.Errorf("%#v lost something", err)
		}
	}
	if got := watch.FailureOf(errors.New("x")); got.Rank != -1 || got.Kind != fault.Internal || got.Error() != "x" {
		t.Errorf("got %+v", got)
	}
}

func TestGaveUpKeepsTheKindOfItsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.Interrupt, "interrupted"))
	if err := watch.GaveUp(ctx, "rank %d", 1); err.Kind != fault.Interrupt || err.Error() != "rank 1: interrupted" {
		t.Errorf("got %v, %v", err.Kind, err)
	}
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	if err := watch.GaveUp(late, "x"); err.Kind != fault.Launch {
		t.Errorf("got %v", err.Kind)
	}
}
