package boot

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot/pmix"
	"perigee/spmd/boot/watch"
	"perigee/spmd/host"
)

// store is the key-value store of a launcher. It serves one purpose: rank 0
// publishes where its coordinator listens and the job's secret, and the others
// read it. The function that opens a store bounds all its waits by a context.
type store interface {
	Rank() int
	Size() int
	LocalRank() int // -1 if the launcher does not say
	// OneHost reports whether the launcher says that all ranks are on one host.
	OneHost() bool
	// Put stores a value under a key. Both are short and consist of letters,
	// digits, hyphens, underscores and colons.
	Put(key, value string) error
	// Fence returns when all ranks have called it. Then what was put before it
	// can be got.
	Fence() error
	Get(key string) (string, error)
	// Done disconnects from the launcher: from now on the process may end in any
	// way. No other method may be called after it.
	Done() error
}

// openStore connects to a launcher's store.
type openStore func(ctx context.Context) (store, error)

// offer holds the entry that rank 0 publishes.
type offer struct {
	Addresses []string `json:"a,omitempty"` // host:port, best first
	Secret    []byte   `json:"s,omitempty"`
	Failure   string   `json:"f,omitempty"` // why there is no place to meet
}

// joinStore returns the connect function of a launcher with a store.
func joinStore(launcher string, env Environ, open openStore) connect {
	return func(ctx context.Context, watch Watcher) (*Process, error) {
		r := rendezvous{
			launcher: launcher, rank: rankFrom(env, launcher), node: nodeName(env), iface: ifaceOf(env),
			hints: storeHints, watch: watch,
		}
		b, err := open(ctx)
		if err != nil {
			return nil, r.asFailure(storeFailure(ctx, launcher, "connect to it", err))
		}
		r.rank, r.size, r.localRank, r.oneHost = b.Rank(), b.Size(), b.LocalRank(), b.OneHost()
		r.siblings = siblingsOf(env, launcher, r.rank)
		meet := r.accept
		if r.rank == 0 {
			meet = r.invite
		}
		p, err := meet(ctx, b)
		return p, r.asFailure(err)
	}
}

var storeHints = hints{
	refused: "another program answers there: choose the network that leads to rank 0 with --iface",
	silent:  "can the hosts reach each other there? choose the network with --iface",
	missing: "have they all started, and can they reach rank 0? choose the network with --iface",
}

// invite opens the coordinator in rank 0 and publishes it. The others hear of
// a failure too, so that they need not wait for what will not come.
func (r rendezvous) invite(ctx context.Context, b store) (*Process, error) {
	r.secret = newSecret()
	p, leader, meet, failure := r.openAnywhere(ctx)
	card := offer{Addresses: meet, Secret: r.secret}
	if failure != nil {
		card = offer{Failure: failure.Error()}
	}
	err := publish(b, card)
	absent := r.watchSiblings(ctx)
	defer absent.stop()
	if err == nil {
		err = r.fence(b)
	}
	if err == nil {
		err = b.Done()
	}
	if failure != nil {
		return nil, failure
	}
	if err != nil {
		leader.Close()
		return nil, absent.explain(ctx, storeFailure(ctx, r.launcher, "announce where to meet", err))
	}
	return p, nil
}

// fence waits for all ranks. The launcher does not say which are missing; what this host shows is said at the first
// of its ranks.
func (r rendezvous) fence(b store) error {
	if r.watch.Waiting != nil {
		defer time.AfterFunc(waitingLong, func() {
			missing, first := r.siblings.look()
			text := fmt.Sprintf("rank %d waits for the %s launcher: not all of the %d ranks have come to it", r.rank,
				r.launcher, r.size)
			if len(missing) > 0 && first {
				text += fmt.Sprintf("; on %s %s", cmp.Or(r.node, host.Name()), describe(missing))
			} else if r.rank > 1 {
				return
			}
			r.watch.Waiting(text)
		}).Stop()
	}
	return b.Fence()
}

// accept reads rank 0's offer and follows it.
func (r rendezvous) accept(ctx context.Context, b store) (*Process, error) {
	var card offer
	absent := r.watchSiblings(ctx)
	defer absent.stop()
	err := r.fence(b)
	if err == nil {
		card, err = readOffer(b)
	}
	if err == nil {
		err = b.Done()
	}
	if err != nil {
		return nil, absent.explain(ctx, storeFailure(ctx, r.launcher, "learn where to meet", err))
	}
	if card.Failure != "" {
		return nil, fault.New(fault.Launch, "rank 0 has failed: %s", card.Failure)
	}
	r.meet, r.secret = card.Addresses, card.Secret
	return r.follow(ctx)
}

func storeFailure(ctx context.Context, launcher, what string, err error) error {
	if ctx.Err() != nil {
		gaveUp := watch.GaveUp(ctx, "the %s launcher let this rank wait, which tried to %s", launcher, what)
		if gaveUp.Kind == fault.Interrupt {
			return gaveUp
		}
		return gaveUp.WithHint("have all ranks started? --launcher chooses another way to meet")
	}
	if errors.Is(err, pmix.ErrRankEnded) {
		return fault.New(fault.RankLost, "the %s launcher: %w", launcher, err).
			WithHint("messages of that rank or of the launcher say which, and why")
	}
	return fault.New(fault.Launch, "the %s launcher: this rank could not %s: %w", launcher, what, err).
		WithHint("%s", cmp.Or(fault.HintOf(err), "--launcher chooses another way to meet"))
}

// secretSize is the length of a secret that perigee makes, in bytes.
const secretSize = 32

// newSecret makes the secret of a job.
func newSecret() []byte {
	secret := make([]byte, secretSize)
	rand.Read(secret)
	return secret
}

// The values of some stores end at 255 characters.
const (
	pieceSize = 240
	maxPieces = 64
)

func pieceKey(i int) string { return "perigee-" + strconv.Itoa(i) }

// publish puts an offer on a store: NUMBER:BASE64 for the first of a
// number of pieces, BASE64 for the others.
func publish(b store, card offer) error {
	data, err := json.Marshal(card)
	if err != nil {
		return err
	}
	text := base64.RawURLEncoding.EncodeToString(data)
	pieces := slices.Collect(slices.Chunk([]byte(text), pieceSize))
	if len(pieces) > maxPieces {
		return fmt.Errorf("%d addresses are too many to publish", len(card.Addresses))
	}
	for i, piece := range pieces {
		value := string(piece)
		if i == 0 {
			value = fmt.Sprintf("%d:%s", len(pieces), piece)
		}
		if err := b.Put(pieceKey(i), value); err != nil {
			return err
		}
	}
	return nil
}

func readOffer(b store) (offer, error) {
	first, err := b.Get(pieceKey(0))
	if err != nil {
		return offer{}, err
	}
	number, text, ok := strings.Cut(first, ":")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > maxPieces {
		return offer{}, fmt.Errorf("what rank 0 published is not an offer: %.40q", first)
	}
	for i := 1; i < n; i++ {
		piece, err := b.Get(pieceKey(i))
		if err != nil {
			return offer{}, err
		}
		text += piece
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return offer{}, fmt.Errorf("rank 0's offer is damaged: %w", err)
	}
	var card offer
	if err := json.Unmarshal(data, &card); err != nil {
		return offer{}, fmt.Errorf("rank 0's offer is damaged: %w", err)
	}
	if card.Failure == "" && (len(card.Addresses) == 0 || len(card.Secret) == 0) {
		return offer{}, errors.New("rank 0's offer is empty")
	}
	return card, nil
}
