package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// gateway is an etcd as far as ranks use it: keys that are put if they are not there, and read.
type gateway struct {
	mu   sync.Mutex
	keys map[string][]byte // also the leases that have been revoked, as lease/ID
	// spoil, if set, returns another status and body for a request.
	spoil func(path, key string) (int, string)
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var q struct {
		ID      string
		Key     []byte
		Success []struct {
			Put struct{ Key, Value []byte } `json:"request_put"`
		}
	}
	data, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(data, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := string(q.Key)
	if len(q.Success) > 0 {
		key = string(q.Success[0].Put.Key)
	}
	if g.spoil != nil {
		if status, body := g.spoil(strings.TrimPrefix(r.URL.Path, "/v3/"), key); status != 0 {
			w.WriteHeader(status)
			io.WriteString(w, body)
			return
		}
	}
	answer := map[string]any{}
	switch r.URL.Path {
	case "/v3/lease/grant":
		answer["ID"] = fmt.Sprint(int64(1)<<62 + int64(len(g.keys)) + time.Now().UnixNano()%1e6)
	case "/v3/lease/keepalive":
	case "/v3/lease/revoke":
		clear(g.keys)
	case "/v3/kv/txn":
		if g.keys[key] == nil {
			g.keys[key] = q.Success[0].Put.Value
			answer["succeeded"] = true
		}
	case "/v3/kv/range":
		if v := g.keys[key]; v != nil {
			answer["kvs"] = []any{map[string]any{"value": v}}
		}
	default:
		http.NotFound(w, r)
		return
	}
	json.NewEncoder(w).Encode(answer)
}

// serve starts a gateway and returns the variables of its ranks.
func (g *gateway) serve(t *testing.T, size int) Environ {
	t.Helper()
	g.keys = map[string][]byte{}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return environ(vars(fmt.Sprintf("NIXL_ETCD_NAMESPACE=/n/ NIXL_ETCD_ENDPOINTS=%s PERIGEE_ETCD_RANKS=%d SLURM_JOB_ID=7", server.URL, size)))
}

// The ranks of a world get different numbers and one secret, one more process gets none, and nothing is left.
func TestRanksMeetAtEtcd(t *testing.T) {
	const n = 4
	for _, given := range []string{"", "a secret of the user"} {
		g := &gateway{}
		env := g.serve(t, n)
		with := func(key string) (string, bool) {
			if key == EnvSecret && given != "" {
				return given, true
			}
			return env(key)
		}
		ranks := make(chan *Process, n)
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				p, err := Join(t.Context(), with, Watcher{})
				if err == nil {
					ranks <- p
					err = errors.Join(p.Put(t.Context(), []byte{byte(p.Rank)}), p.Fence(t.Context()))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		close(ranks)
		for key, value := range g.keys {
			if !strings.HasPrefix(key, "/n/perigee/7/") || given != "" && strings.Contains(string(value), `"s"`) {
				t.Errorf("key %s holds %s", key, value)
			}
		}
		if _, err := Join(t.Context(), with, Watcher{}); fault.KindOf(err) != fault.Launch || !strings.Contains(err.Error(), "all 4 ranks of /n/perigee/7/ have come") {
			t.Errorf("one too many: %v", err)
		}
		got, secrets := map[int]bool{}, map[string]bool{}
		for p := range ranks {
			got[p.Rank], secrets[string(p.Secret)] = true, true
			if p.Launcher != "etcd" || p.Size != n || p.LocalRank != -1 || !cmp.Equal(p.IPs, []string{"127.0.0.1"}) {
				t.Errorf("%+v", p)
			}
			wg.Go(func() {
				if err := p.Leave(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(got) != n || len(secrets) != 1 || given != "" && !secrets[given] {
			t.Errorf("ranks %v, %d secrets", got, len(secrets))
		}
		if len(g.keys) > 0 {
			t.Errorf("left: %v", g.keys)
		}
	}
}

// An etcd that has found the data of an earlier job leads to no rank of that.
func TestEtcdOfEarlierJob(t *testing.T) {
	g := &gateway{}
	env := g.serve(t, 1)
	g.keys["/n/perigee/6/0"], g.keys["/n/perigee/6/meet"] = []byte(`{"lease":"1","ranks":1}`), []byte(`{"a":["127.0.0.1:1"],"s":"c2VjcmV0"}`)
	p, err := Join(t.Context(), env, Watcher{})
	if err != nil || p.Rank != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := errors.Join(p.Put(t.Context(), nil), p.Fence(t.Context()), p.Leave(t.Context())); err != nil {
		t.Error(err)
	}
}

// What is wrong at etcd is a failure to start, with the place, and never a wait without end.
func TestBadEtcd(t *testing.T) {
	value := func(text string) string {
		data, _ := json.Marshal(map[string]any{"kvs": []any{map[string]any{"value": []byte(text)}}})
		return string(data)
	}
	for name, c := range map[string]struct {
		spoil func(path, key string) (int, string)
		want  string
	}{
		"old etcd": {func(string, string) (int, string) { return 404, "404 page not found" }, "404 Not Found"},
		"no JSON":  {func(path, _ string) (int, string) { return map[string]int{"kv/txn": 200}[path], "<html>" }, "invalid character '<'"},
		"needs a login": {func(path, _ string) (int, string) {
			return map[string]int{"kv/txn": 400}[path], `{"error":"user name is empty"}`
		}, "user name is empty"},
		"other size": {func(path, _ string) (int, string) {
			return map[string]int{"kv/txn": 200, "kv/range": 200}[path], value(`{"lease":"1","ranks":3}`)
		}, "rank 0 at etcd wants 3 ranks, and this process 2"},
		"foreign value": {func(path, _ string) (int, string) {
			return map[string]int{"kv/txn": 200, "kv/range": 200}[path], value(`[`)
		}, "the value of /n/perigee/7/0"},
		"failed rank 0": {func(path, key string) (int, string) {
			switch {
			case path == "kv/txn" && strings.HasSuffix(key, "/0"):
				return 200, "{}"
			case path == "kv/range" && strings.HasSuffix(key, "/0"):
				return 200, value(`{"lease":"1","ranks":2}`)
			case path == "kv/range":
				return 200, value(`{"f":"no port"}`)
			}
			return 0, ""
		}, "rank 0 has failed: no port"},
		"silent rank 0": {func(path, key string) (int, string) {
			switch {
			case path == "kv/txn" && strings.HasSuffix(key, "/0"):
				return 200, "{}"
			case path == "kv/range" && strings.HasSuffix(key, "/0"):
				return 200, value(`{"lease":"1","ranks":2}`)
			}
			return 0, ""
		}, "has not said where it is"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gateway{spoil: c.spoil}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, fault.New(fault.Launch, "time is up"))
			defer cancel()
			_, err := Join(ctx, g.serve(t, 2), Watcher{})
			must.Fail(t, err, fault.Launch, c.want)
		})
	}
}
