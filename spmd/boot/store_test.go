package boot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/spmd/boot/pmix"
	"perigee/spmd/boot/watch"
)

// meet lets all ranks of a manager join and leave again.
func meet(ctx context.Context, m *manager, way string, at func(p *Process) error) []error {
	errs := make([]error, m.size)
	var wg sync.WaitGroup
	for r := range m.size {
		env := environ(environments[way](m, r))
		wg.Go(func() {
			p, err := Join(ctx, env, Watcher{})
			if err != nil {
				errs[r] = err
				return
			}
			err = p.Put(ctx, []byte{byte(r)})
			if err == nil {
				err = p.Fence(ctx)
			}
			if err == nil {
				err = at(p)
			}
			errs[r] = errors.Join(err, p.Leave(ctx))
		})
	}
	wg.Wait()
	return errs
}

func TestRanksMeetThroughBoards(t *testing.T) {
	for way := range environments {
		for _, n := range []int{1, 2, 5} {
			t.Run(fmt.Sprint(way, " ", n), func(t *testing.T) {
				m := newManager(t, n)
				var mu sync.Mutex
				secrets := map[string]bool{}
				errs := meet(t.Context(), m, way, func(p *Process) error {
					mu.Lock()
					secrets[string(p.Secret)] = true
					mu.Unlock()
					for r := range n {
						if card, err := p.Get(t.Context(), r); err != nil || !cmp.Equal(card, []byte{byte(r)}) {
							return fmt.Errorf("card of rank %d: %v, %v", r, card, err)
						}
					}
					if launcher, _, _ := strings.Cut(way, " "); p.Launcher != launcher || p.Size != n || !m.gone[p.Rank] ||
						p.Listen != "127.0.0.1:0" || !cmp.Equal(p.IPs, []string{"127.0.0.1"}) {
						return fmt.Errorf("%+v, said goodbye %v", p, m.gone)
					}
					if local := map[string]int{"pmi1": p.Rank, "pmi1 port": -1, "pmi2": p.Rank}[way]; p.LocalRank != local {
						return fmt.Errorf("local rank %d, want %d", p.LocalRank, local)
					}
					if host := map[string]string{"pmi2": "node9"}[way]; p.Host != host {
						return fmt.Errorf("host %q, want %q", p.Host, host)
					}
					return nil
				})
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
				for s := range secrets {
					if len(secrets) != 1 || len(s) != 32 {
						t.Errorf("%d secrets, one of %d bytes", len(secrets), len(s))
					}
				}
			})
		}
	}
}

// spoilt runs two ranks with a manager that spoils its answers, and returns
// rank 1's error.
func spoilt(t *testing.T, way string, spoil func(rank int, command, answer string) string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	m := newManager(t, 2)
	m.spoil = spoil
	errs := make(chan error, 1)
	for r := range 2 {
		env := environ(environments[way](m, r))
		go func() {
			p, err := Join(ctx, env, Watcher{})
			if r == 0 && err == nil {
				p.Leave(ctx)
			}
			if r == 1 {
				if err == nil {
					p.Monitor.Leave(ctx)
				}
				errs <- err
				cancel() // rank 0 need not wait
			}
		}()
	}
	return <-errs
}

func TestBadManagers(t *testing.T) {
	replace := func(command, answer string) func(int, string, string) string {
		return func(rank int, c, a string) string {
			if rank == 1 && c == command {
				return answer
			}
			return a
		}
	}
	for _, c := range []struct{ way, command, answer, want string }{
		{"pmi1", "init", "cmd=response_to_init rc=-1 pmi_version=1\n", "init: rc=-1"},
		{"pmi1", "init", "HTTP/1.1 400 Bad Request\n", `answered "HTTP/1.1 400`},
		{"pmi1", "init", strings.Repeat("x", maxPMI+1), "buffer full"},
		{"pmi1", "get_maxes", "cmd=maxes vallen_max=100\n", `vallen_max="100": want an integer from`},
		{"pmi1", "barrier_in", "cmd=barrier_out rc=5 msg=lost\n", "barrier: rc=5 lost"},
		{"pmi1", "get", "cmd=get_result rc=-1 msg=key_not_found\n", "get: rc=-1 key_not_found"},
		{"pmi1", "get", "cmd=get_result rc=0 value=2:e30\n", "rank 0's offer is"},
		{"pmi1", "get", "cmd=get_result rc=0 value=1:e30\n", "rank 0's offer is empty"},
		{"pmi1", "get", "cmd=get_result rc=0 value=1:!!!!\n", "damaged"},
		{"pmi1", "get", "cmd=get_result rc=0 value=1:AAAA\n", "damaged"},
		{"pmi1", "get", "cmd=get_result rc=0 value=9999:e30\n", "not an offer"},
		{"pmi1", "finalize", "cmd=what\n", "not finalize_ack"},
		{"pmi1 port", "initack", "cmd=initack rc=1 msg=who\n", "initack: rc=1 who"},
		{"pmi1 port", "initack", "cmd=initack rc=0\ncmd=set size=2\ncmd=set rank=2\ncmd=set debug=0\n", `rank="2": want an integer from 0 to 1`},
		{"pmi2", "init", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n", `speaks version "1" of PMI`},
		{"pmi2", "fullinit", "cmd=fullinit-response;rc=14;errmsg=no room;", "fullinit: rc=14 no room"},
		{"pmi2", "fullinit", "cmd=fullinit-response;rc=0;rank=0;size=2;", "says rank 0 of 2, the environment PMI_RANK=1 PMI_SIZE=2"},
		{"pmi2", "fullinit", "cmd=fullinit-response;rc=0;rank=x;", `rank="x": want an integer`},
		{"pmi2", "kvs-fence", "cmd=ring-response;rc=0;", `answered "ring-response", not kvs-fence-response`},
		{"pmi2", "kvs-get", "cmd=kvs-get-response;rc=0;found=FALSE;", "there is no perigee-0"},
	} {
		err := spoilt(t, c.way, replace(c.command, c.answer))
		must.Fail(t, err, fault.Launch, c.want)
	}
}

// A manager that never answers does not keep a rank for longer than it is told, and the
// rank says which one it is, whether or not it has come to the manager.
func TestSilentManager(t *testing.T) {
	for way := range environments {
		for _, limit := range []time.Duration{50 * time.Millisecond, 0} {
			m := newManager(t, 2) // the other rank never comes
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := Join(ctx, environ(environments[way](m, 1)), Watcher{})
			must.Fail(t, err, fault.Launch, "launcher let this rank wait")
			if f := watch.FailureOf(err); f.Rank != 1 || f.Host == "" || f.Phase != "start" {
				t.Errorf("%s: failure %+v", way, f)
			}
		}
	}
}

// A rank that another one has left waiting does not take the blame, and nothing is advised to a user who has ended the
// job.
func TestStoreFailures(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.Interrupt, "ended by signal: terminated"))
	late, stop := context.WithTimeoutCause(t.Context(), 0, errors.New("not all ranks came within 2m"))
	defer stop()
	for _, tt := range []struct {
		ctx        context.Context
		err        error
		kind       fault.Kind
		text, hint string
	}{
		{
			t.Context(), pmix.ErrRankEnded, fault.RankLost,
			"the pmix launcher: another rank has ended before all had met", "messages of that rank",
		},
		{ended, context.Cause(ended), fault.Interrupt, "ended by signal: terminated", ""},
		{late, context.Cause(late), fault.Launch, "let this rank wait", "have all ranks started?"},
		{t.Context(), errors.New("refused"), fault.Launch, "could not meet: refused", "--launcher"},
	} {
		err := storeFailure(tt.ctx, "pmix", "meet", tt.err)
		hint := fault.HintOf(err)
		if fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) ||
			!strings.Contains(hint, tt.hint) || (hint != "") != (tt.hint != "") {
			t.Errorf("%v: %v of the kind %v, hint %q", tt.err, err, fault.KindOf(err), hint)
		}
	}
}

// Where rank 0 cannot open its door, the others hear why.
func TestRankZeroFailsEverybody(t *testing.T) {
	m := newManager(t, 3)
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for r := range errs {
		vars := environments["pmi2"](m, r)
		vars[EnvIface] = "203.0.113.0/24" // on no interface
		wg.Go(func() { _, errs[r] = Join(t.Context(), environ(vars), Watcher{}) })
	}
	wg.Wait()
	for r, err := range errs {
		if fault.KindOf(err) != fault.Launch || !strings.Contains(err.Error(), "203.0.113.0/24 on ") || r > 0 && !strings.Contains(err.Error(), "rank 0 has failed") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if !m.gone[0] || !m.gone[1] || !m.gone[2] {
		t.Errorf("said goodbye to the launcher: %v", m.gone)
	}
}

func TestClosedDescriptor(t *testing.T) {
	for _, env := range []string{"PMI_FD=9999 PMI_RANK=0 PMI_SIZE=1", "PMI_FD=9999 PMI_RANK=0 PMI_SIZE=1 PMI_JOBID=1"} {
		_, err := Join(t.Context(), environ(vars(env)), Watcher{})
		checkFault(t, env, false, err, "PMI_FD=9999 is not the launcher's descriptor: bad file descriptor")
	}
}

// memoryStore is a store without a launcher.
type memoryStore map[string]string

func (memoryStore) Rank() int                      { return 0 }
func (memoryStore) Size() int                      { return 1 }
func (memoryStore) LocalRank() int                 { return 0 }
func (memoryStore) OneHost() bool                  { return true }
func (b memoryStore) Put(k, v string) error        { b[k] = v; return nil }
func (memoryStore) Fence() error                   { return nil }
func (b memoryStore) Get(k string) (string, error) { return b[k], nil }
func (memoryStore) Done() error                    { return nil }

// Whatever is published is read again, and in pieces that any store takes.
func TestInvitations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := offer{
			Addresses: rapid.SliceOfN(rapid.StringN(1, 30, 60), 1, 40).Draw(t, "addresses"),
			Secret:    rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "secret"),
			Failure:   rapid.String().Draw(t, "failure"),
		}
		for i, a := range want.Addresses {
			want.Addresses[i] = strings.ToValidUTF8(a, "?")
		}
		want.Failure = strings.ToValidUTF8(want.Failure, "?")
		b := memoryStore{}
		must.Do(t, publish(b, want))
		for k, v := range b {
			if len(k) > 63 || len(v) > 255 || strings.ContainsAny(k+v, " ;=\n") {
				t.Fatalf("%q: %q", k, v)
			}
		}
		got, err := readOffer(b)
		if err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%v\n%s", err, cmp.Diff(want, got))
		}
	})
	if err := publish(memoryStore{}, offer{Addresses: make([]string, 10_000)}); err == nil {
		t.Error("an offer of ten thousand addresses was published")
	}
}

func FuzzPMI2Message(f *testing.F) {
	for _, seed := range []string{"12    cmd=x;rc=0;", "-1    ", "999999", "3     a=b", "6     ;;;==="} {
		f.Add(seed)
	}
	fuzztest.Run(f, []string{"12    ", "31    ", "7     ", "cmd=", "rc=0;", ";", "=", "key", "value", "a", "-1    ", " "}, func(t *testing.T, text string) {
		m, err := readPMI2Message(strings.NewReader(text))
		if err != nil {
			return
		}
		length, err := strconv.Atoi(strings.TrimSpace(text[:6]))
		want := pmiReply{}
		for _, pair := range regexp.MustCompile(`[^;]+`).FindAllString(text[6:6+length], -1) {
			if at := strings.IndexByte(pair, '='); at >= 0 {
				want[strings.TrimSpace(pair[:at])] = pair[at+1:]
			}
		}
		if err != nil || !maps.Equal(m, want) {
			t.Fatalf("%q is read as %q, want %q, %v", text, m, want, err)
		}
	})
}

func TestPMI2MessagesReadAsWritten(t *testing.T) {
	text := formatPMI2("kvs-put", "key", "a-1", "value", "QUJD")
	if text != "31    cmd=kvs-put;key=a-1;value=QUJD;" {
		t.Errorf("wrote %q", text)
	}
	m, err := readPMI2Message(strings.NewReader(text))
	if want := (pmiReply{"cmd": "kvs-put", "key": "a-1", "value": "QUJD"}); err != nil || !cmp.Equal(m, want) {
		t.Errorf("read %v, %v", m, err)
	}
	for _, bad := range []string{"", "12", "12    cmd=", "x     ", "999999x", "-5    abc"} {
		if m, err := readPMI2Message(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v", bad, m)
		}
	}
}

// A number that a wrapper has closed may be anything by now, one of Go's own too.
func TestForeignPMIDescriptor(t *testing.T) {
	file, err := os.Open(os.DevNull)
	must.Do(t, err)
	defer file.Close()
	for _, env := range []string{"PMI_RANK=0 PMI_SIZE=1", "PMI_RANK=0 PMI_SIZE=1 PMI_JOBID=1"} {
		_, err := Join(t.Context(), environ(vars(fmt.Sprintf("PMI_FD=%d %s", file.Fd(), env))), Watcher{})
		checkFault(t, env, false, err, "is not the launcher's descriptor: it is something else than a socket")
	}
	if _, err := file.Stat(); err != nil {
		t.Error(err)
	}
}
