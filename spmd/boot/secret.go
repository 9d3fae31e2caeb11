package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/spmd/wire"
)

// EnvSecret is the job's secret where the launcher gives none.
const EnvSecret = "PERIGEE_SECRET"

// minSecret is the least length of a secret that the user gives: 16 hexadecimal digits
// have 64 bits, and a word is shorter.
const minSecret = 16

// secretHint is how to make a secret.
const secretHint = "export " + EnvSecret + "=$(openssl rand -hex 32), the same for all ranks"

// givenSecret returns the secret that the user has given, nil if there is none.
func givenSecret(env Environ) ([]byte, error) {
	s, _ := env(EnvSecret)
	if s == "" {
		return nil, nil
	}
	if len(s) < minSecret {
		return nil, fault.New(fault.Launch, "%s has %d characters, and can be guessed: want at least %d", EnvSecret,
			len(s), minSecret).
			WithHint(secretHint)
	}
	return []byte(s), nil
}

// sameUser hands a secret to processes of the same user on the same host. It is in
// a memory file, which has no name in any file system. What is sent is where to find
// it: the number of the process and of its descriptor.
type sameUser struct{ file *os.File }

// secretFile is the name that the kernel shows for the memory file.
const secretFile = "perigee-secret"

func (s *sameUser) seal(_ context.Context, secret []byte) (func() []byte, error) {
	fd, err := memory.CreateFile(secretFile, 0)
	if err == nil {
		s.file = os.NewFile(uintptr(fd), secretFile)
		_, err = s.file.Write(secret)
	}
	if err == nil {
		err = memory.SealFile(fd)
	}
	if err != nil {
		return nil, fault.New(fault.Launch, "rank 0 cannot make a memory file for the job's secret: %w",
			errors.Join(err, s.Close())).WithHint(secretHint)
	}
	challenge := fmt.Appendf(nil, "%d %d", os.Getpid(), fd)
	return func() []byte { return challenge }, nil
}

// Close removes the memory file.
func (s *sameUser) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

func (*sameUser) open(_ context.Context, challenge []byte) ([]byte, error) {
	process, descriptor, _ := strings.Cut(string(challenge), " ")
	pid, errPID := strconv.ParseUint(process, 10, 31)
	fd, errFD := strconv.ParseUint(descriptor, 10, 31)
	if err := errors.Join(errPID, errFD); err != nil {
		return nil, fmt.Errorf("%w: it does not say where the secret is", wire.ErrProof)
	}
	// The other end chooses the file, and is not authenticated yet.
	own, _, err := memory.OpenFile(int(pid), int(fd), secretFile, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("%w: it is a process of another user, host or container: %w", wire.ErrProof, err)
	}
	f := os.NewFile(uintptr(own), secretFile)
	defer f.Close()
	secret := make([]byte, secretSize)
	if _, err := f.ReadAt(secret, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: its secret cannot be read: %w", wire.ErrProof, err)
	}
	return secret, nil
}
