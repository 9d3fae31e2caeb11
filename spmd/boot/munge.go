package boot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/slurm"
	"perigee/spmd/boot/watch"
	"perigee/spmd/wire"
)

// EnvMungeSocket is the socket of munged where neither slurm.conf nor munge knows it.
const EnvMungeSocket = "PERIGEE_MUNGE_SOCKET"

// MungeSocket returns the socket at which munged is asked, and who says so: the user, or
// AuthInfo in slurm.conf. It is "" where munge's own default counts.
func MungeSocket(env Environ) (socket, from string) {
	if s, _ := env(EnvMungeSocket); s != "" {
		return s, EnvMungeSocket
	}
	// A host without slurm.conf, or with one that cannot be read, is no reason to fail
	// here: munge says what is wrong.
	conf, err := slurm.ReadConfig(env)
	if err != nil || conf.AuthSocket() == "" {
		return "", ""
	}
	return conf.AuthSocket(), "AuthInfo of slurm.conf"
}

// munge seals a secret so that only processes of the same user on hosts with
// the same munge key can open it. It calls the programs munge and unmunge.
type munge struct {
	encode, decode string // the programs
	socket         string
	mark           string // what the payload begins with
}

// findMunge looks for munge. Its credentials are for the step of that name only: one that the user has made for
// something else, with a payload that others know, must not pass for rank 0's.
func findMunge(env Environ, step string) (*munge, error) {
	m := &munge{mark: "perigee secret of step " + step + " is "}
	m.socket, _ = MungeSocket(env)
	var errEncode, errDecode error
	m.encode, errEncode = exec.LookPath("munge")
	m.decode, errDecode = exec.LookPath("unmunge")
	if err := errors.Join(errEncode, errDecode); err != nil {
		return nil, noSecret(err)
	}
	return m, nil
}

// noSecret refuses to run with links that anybody could join.
func noSecret(cause error) error {
	return fault.New(fault.Launch, "the ranks of this Slurm step have no secret to know each other by, and munge cannot carry one: %w", cause).
		WithHint("export %s=$(openssl rand -hex 32) before srun, or use srun --mpi=pmi2 or --mpi=pmix", EnvSecret)
}

// failed is why munge has not carried the secret: it cannot, or the wait for it was ended, which kills it.
func failed(ctx context.Context, err error) error {
	if _, ended := errors.AsType[*fault.Error](context.Cause(ctx)); ended {
		return watch.GaveUp(ctx, "munge has not answered")
	}
	return noSecret(err)
}

// credentialAge is how long a credential is used. munge's own limit is five
// minutes by default.
const credentialAge = time.Minute

// seal makes a credential and returns a function that gives it, or in time a
// fresh one.
func (m *munge) seal(ctx context.Context, secret []byte) (func() []byte, error) {
	first, err := m.credential(ctx, secret)
	if err != nil {
		return nil, failed(ctx, err)
	}
	var mu sync.Mutex
	current, made := first, time.Now()
	return func() []byte {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(made) > credentialAge {
			made = time.Now() // munged may be gone; the old one may still do
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if fresh, err := m.credential(ctx, secret); err == nil {
				current = fresh
			}
		}
		return current
	}, nil
}

func (m *munge) credential(ctx context.Context, secret []byte) ([]byte, error) {
	args := []string{"--restrict-uid", strconv.Itoa(os.Geteuid())}
	out, _, err := m.run(ctx, m.encode, args, m.mark+base64.StdEncoding.EncodeToString(secret))
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out), nil
}

// The exit codes of unmunge for credentials that are genuine, but late, early
// or seen before. None of that is a danger here: the secret is of use only if
// the other side proves, in the handshake, that it knows it too.
const (
	mungeExpired  = 15
	mungeRewound  = 16
	mungeReplayed = 17
)

// open reads the secret out of a credential of the same user.
func (m *munge) open(ctx context.Context, letter []byte) ([]byte, error) {
	out, code, err := m.run(ctx, m.decode, []string{"--numeric", "--keys=UID", "--metadata=-", "--output=-"},
		string(letter))
	if err != nil && code != mungeExpired && code != mungeRewound && code != mungeReplayed {
		if code > 0 && !strings.Contains(err.Error(), "socket") {
			return nil, fmt.Errorf("%w: its credential is not for this user: %w", wire.ErrProof, err)
		}
		return nil, failed(ctx, err)
	}
	return secretIn(string(out), m.mark)
}

// secretIn reads what unmunge prints: metadata, an empty line, the payload, which begins with mark.
func secretIn(out, mark string) ([]byte, error) {
	metadata, payload, ok := strings.Cut(out, "\n\n")
	if !ok {
		return nil, errors.New("unmunge printed no payload")
	}
	_, uid, _ := strings.Cut(metadata, "UID:")
	uid, _, _ = strings.Cut(uid, "\n")
	if strings.TrimSpace(uid) != strconv.Itoa(os.Geteuid()) {
		return nil, fmt.Errorf("%w: its credential is of user %s", wire.ErrProof, strings.TrimSpace(uid))
	}
	payload, ours := strings.CutPrefix(payload, mark)
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(payload))
	if !ours || err != nil || len(secret) == 0 {
		return nil, fmt.Errorf("%w: its credential holds no secret of this step", wire.ErrProof)
	}
	return secret, nil
}

// run calls a program of munge. code is its exit code, -1 if it could not run.
func (m *munge) run(ctx context.Context, program string, args []string, stdin string) (stdout []byte, code int,
	err error) {
	if m.socket != "" {
		args = append(args, "--socket", m.socket)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		code := -1
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		}
		text, _, _ := strings.Cut(strings.TrimSpace(problems.String()), "\n")
		return out.Bytes(), code, fmt.Errorf("%s: %s", program, cmp.Or(text, err.Error()))
	}
	return out.Bytes(), 0, nil
}
