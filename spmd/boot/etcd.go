package boot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot/watch"
)

// The variables of ranks that meet at an etcd, as processes of nixlbench do. The namespace belongs to one run. The
// endpoints are host:port or http://host:port, separated by commas. EnvEtcdRanks is how many ranks there are.
const (
	EnvEtcdNamespace = "NIXL_ETCD_NAMESPACE"
	EnvEtcdEndpoints = "NIXL_ETCD_ENDPOINTS"
	EnvEtcdRanks     = "PERIGEE_ETCD_RANKS"
)

// defaultEtcd is where an etcd listens that runs here.
const defaultEtcd = "http://localhost:2379"

// detectEtcd recognises a process whose own launcher knows of no other rank: none, or a step of Slurm with one task.
func detectEtcd(env Environ) (connect, error) {
	if v := readVariables(env, EnvEtcdNamespace, EnvEtcdRanks); len(v.lack) > 0 {
		return nil, nil
	}
	launcher, slurms := RankOf(env)
	if launcher != "" && !(slurms && IsOnlyTask(env)) {
		return nil, nil
	}
	return requireEtcd(env)
}

// IsOnlyTask reports whether this process is the only task of a step of Slurm.
func IsOnlyTask(env Environ) bool { return IsTask(env) && variable(env, "SLURM_STEP_NUM_TASKS") == "1" }

func requireEtcd(env Environ) (connect, error) {
	v := readVariables(env, EnvEtcdNamespace, EnvEtcdRanks)
	if err := v.incomplete("etcd"); err != nil {
		return nil, err
	}
	size, err := v.integer(EnvEtcdRanks, 1, MaxSize)
	if err != nil {
		return nil, err
	}
	e := &etcd{
		size: size, given: cmp.Or(variable(env, EnvEtcdEndpoints), defaultEtcd), folder: fmt.Sprintf("%s/perigee/%s/",
			strings.TrimRight(v.values[EnvEtcdNamespace], "/"), cmp.Or(variable(env, "SLURM_JOB_ID"), "-")),
		// Where a proxy is set it is for other addresses than those of the job's hosts.
		client: http.Client{Timeout: etcdAnswer, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	if e.endpoints, err = parseEndpoints(e.given); err != nil {
		return nil, err
	}
	return func(ctx context.Context, w Watcher) (*Process, error) { return e.join(ctx, env, w) }, nil
}

// etcd is the place where the ranks of a world meet. It is reached by its JSON gateway, which etcd has since 3.4.
//
// The first that comes makes the key 0 in the folder, and is rank 0. The others take the next free number. Each does
// so in a transaction that another comer cannot interrupt. All keys have the lease of rank 0: they vanish soon after
// its end, whatever ended it, and a run of the same namespace meets none of an earlier one. The folder has the job's
// number, since an etcd may find the data of an earlier job.
type etcd struct {
	folder    string // of the keys, with a slash at its end
	size      int
	given     string // the endpoints as the user has them
	endpoints []*url.URL
	client    http.Client
}

// An answer of etcd takes etcdAnswer at most. Keys outlive rank 0 by etcdLease. Who comes before etcd answers tries for
// etcdPatience; who comes before rank 0 listens looks again after etcdPause.
const (
	etcdAnswer   = 5 * time.Second
	etcdLease    = 9 * time.Second
	etcdPatience = 20 * time.Second
	etcdPause    = 100 * time.Millisecond
)

// founding is the value of the key 0.
type founding struct {
	Lease string `json:"lease"`
	Ranks int    `json:"ranks"`
}

func parseEndpoints(list string) (all []*url.URL, err error) {
	for text := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ';' || r == ' ' }) {
		full := text
		if !strings.Contains(text, "://") {
			full = "http://" + text
		}
		u, err := url.Parse(full)
		if err != nil || u.Host == "" || u.Scheme != "http" {
			return nil, fault.New(fault.Launch, "%s: %q: want http://host:port or host:port", EnvEtcdEndpoints, text).
				WithHint("perigee speaks with etcd without TLS: let it listen at an http:// address, too")
		}
		all = append(all, &url.URL{Scheme: u.Scheme, Host: u.Host})
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Launch, "%s: %q: want host:port", EnvEtcdEndpoints, list)
	}
	return all, nil
}

func (e *etcd) join(ctx context.Context, env Environ, w Watcher) (*Process, error) {
	r := rendezvous{
		launcher: "etcd", rank: -1, size: e.size, localRank: -1, node: nodeName(env), iface: ifaceOf(env), watch: w,
		hints: hints{
			refused: "set the same " + EnvSecret + " for all ranks",
			silent: "does rank 0 live, whose keys last nine seconds longer? Can the hosts reach each other there? " +
				"Choose the network with --iface",
			missing: fmt.Sprintf("start as many processes as %s says (nixlbench: --num_initiator_dev + --num_target_dev), "+
				"with the same %s; --launcher local starts all ranks here", EnvEtcdRanks, EnvEtcdNamespace),
		},
	}
	if here := loopback(e.endpoints[0].Hostname()); here != "" {
		r.host = here // other hosts do not reach this etcd
	}
	given, err := givenSecret(env)
	if err != nil {
		return nil, r.asFailure(err)
	}
	found, err := e.enter(ctx, &r.rank)
	if err != nil {
		return nil, r.asFailure(err)
	}
	w.log().Info(fmt.Sprintf("etcd makes this rank %d", r.rank), "address", e.given, "name", e.folder)
	if r.rank == 0 {
		p, err := e.lead(ctx, r, given, found.Lease)
		return p, r.asFailure(err)
	}
	card, err := e.offer(ctx)
	if err != nil {
		return nil, r.asFailure(err)
	}
	r.meet, r.secret = card.Addresses, card.Secret
	if given != nil {
		r.secret = given
	}
	p, err := r.follow(ctx)
	return p, r.asFailure(err)
}

// lead opens the coordinator and says where it is. A given secret is not left with etcd.
func (e *etcd) lead(ctx context.Context, r rendezvous, given []byte, lease string) (*Process, error) {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	leave := sync.OnceFunc(func() {
		end()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), etcdAnswer)
		defer cancel()
		e.call(ctx, "lease/revoke", map[string]any{"ID": lease}, nil) // else it ends by itself
	})
	go e.stay(alive, lease)
	r.secret = given
	card := offer{}
	if given == nil {
		r.secret = newSecret()
		card.Secret = r.secret
	}
	p, leader, meet, failure := r.openAnywhere(ctx)
	card.Addresses = meet
	if failure != nil {
		card = offer{Failure: failure.Error()}
	}
	_, err := e.claim(ctx, "meet", card, lease)
	if failure != nil {
		time.AfterFunc(etcdLease, end)
		return nil, failure
	}
	shut := leader.Shut
	leader.Shut = func() { shut(); leave() } // after the job: till then a further process is one too many
	if err != nil {
		leader.Close()
		return nil, err
	}
	return p, nil
}

// stay keeps the keys until ctx ends.
func (e *etcd) stay(ctx context.Context, lease string) {
	for ctx.Err() == nil {
		e.call(ctx, "lease/keepalive", map[string]any{"ID": lease}, nil) // what has failed is tried again
		select {
		case <-time.After(etcdLease / 3):
		case <-ctx.Done():
		}
	}
}

// enter takes the first free number, which it sets as soon as it is known.
func (e *etcd) enter(ctx context.Context, rank *int) (first founding, err error) {
	mine := founding{Ranks: e.size}
	if mine.Lease, err = e.grant(ctx); err != nil {
		return mine, err
	}
	for found := false; !found; {
		free, err := e.claim(ctx, "0", mine, mine.Lease)
		if free {
			first = mine
		} else if err == nil {
			found, err = e.get(ctx, "0", &first) // not found: it has just vanished
		}
		if err != nil {
			return first, err
		}
		if first.Lease == mine.Lease { // also where the answer to the claim was lost
			*rank = 0
			return mine, nil
		}
	}
	if first.Ranks != e.size {
		return first, fault.New(fault.Launch, "rank 0 at etcd wants %d ranks, and this process %d", first.Ranks, e.size).
			WithHint("give all processes the same options")
	}
	for n := 1; n < e.size; n++ {
		if free, err := e.claim(ctx, strconv.Itoa(n), n, first.Lease); free || err != nil {
			*rank = n
			return first, err
		}
	}
	return first, fault.New(fault.Launch, "all %d ranks of %s have come to etcd already: this process is one too many",
		e.size, e.folder).
		WithHint("%s says how many there are (nixlbench: --num_initiator_dev + --num_target_dev); each run has its own %s",
			EnvEtcdRanks, EnvEtcdNamespace)
}

// grant makes a lease. The etcd may not have begun to answer.
func (e *etcd) grant(ctx context.Context) (lease string, err error) {
	for began := time.Now(); ; time.Sleep(etcdPause) {
		var granted struct{ ID string }
		err := e.call(ctx, "lease/grant", map[string]any{"TTL": int(etcdLease / time.Second)}, &granted)
		_, silent := errors.AsType[*url.Error](err)
		if !silent || time.Since(began) > etcdPatience || ctx.Err() != nil {
			return granted.ID, err
		}
	}
}

// offer waits until rank 0 has said where it is.
func (e *etcd) offer(ctx context.Context) (card offer, err error) {
	for {
		found, err := e.get(ctx, "meet", &card)
		switch {
		case err != nil:
			return card, err
		case card.Failure != "":
			return card, fault.New(fault.Launch, "rank 0 has failed: %s", card.Failure)
		case found:
			return card, nil
		}
		select {
		case <-time.After(etcdPause):
		case <-ctx.Done():
			return card, watch.GaveUp(ctx, "rank 0 has a number at etcd, but has not said where it is")
		}
	}
}

// claim puts a key that is not there, and reports whether it was free.
func (e *etcd) claim(ctx context.Context, key string, value any, lease string) (free bool, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return false, err
	}
	name := []byte(e.folder + key) // bytes are base64 in JSON
	var answer struct{ Succeeded bool }
	err = e.call(ctx, "kv/txn", map[string]any{
		"compare": []any{map[string]any{"key": name, "target": "CREATE", "result": "EQUAL", "create_revision": 0}},
		"success": []any{map[string]any{"request_put": map[string]any{"key": name, "value": text, "lease": lease}}},
	}, &answer)
	return answer.Succeeded, err
}

func (e *etcd) get(ctx context.Context, key string, value any) (found bool, err error) {
	var answer struct{ Kvs []struct{ Value []byte } }
	err = e.call(ctx, "kv/range", map[string]any{"key": []byte(e.folder + key)}, &answer)
	if err != nil || len(answer.Kvs) == 0 {
		return false, err
	}
	if err := json.Unmarshal(answer.Kvs[0].Value, value); err != nil {
		return false, fault.New(fault.Launch, "etcd at %s: the value of %s%s: %w", e.given, e.folder, key, err)
	}
	return true, nil
}

// call asks one endpoint after the other. A nil answer is not read.
func (e *etcd) call(ctx context.Context, path string, request, answer any) (err error) {
	body, err := json.Marshal(request)
	for _, endpoint := range e.endpoints {
		if err = e.ask(ctx, endpoint.JoinPath("v3", path).String(), body, answer); err == nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return watch.GaveUp(ctx, "etcd at %s", e.given)
	}
	return fault.New(fault.Launch, "etcd at %s: %w", e.given, err).
		WithHint("%s says where it is (host:port); does it run, and is it 3.4 or later? --launcher local needs none",
			EnvEtcdEndpoints)
}

func (e *etcd) ask(ctx context.Context, address string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	const most = 1 << 20
	data, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil || response.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("%s: %s: %.200q", address, response.Status, data))
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
