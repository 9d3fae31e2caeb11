package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
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
// it: the number of the process and of its descriptor. The kernel lets only the same
// user open it there.
type sameUser struct{ file *os.File }

// secretFile is the name that the kernel shows for the memory file.
const secretFile = "perigee-secret"

func (s *sameUser) seal(_ context.Context, secret []byte) (func() []byte, error) {
	fd, err := unix.MemfdCreate(secretFile, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fault.New(fault.Launch, "rank 0 cannot make a memory file for the job's secret: %w",
			err).WithHint(secretHint)
	}
	s.file = os.NewFile(uintptr(fd), secretFile)
	if _, err := s.file.Write(secret); err != nil {
		return nil, errors.Join(err, s.Close())
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

// inMemory reports whether a file is one that memfd_create has made: in the kernel's own file system, without a name.
func inMemory(st unix.Stat_t) bool {
	fd, err := unix.MemfdCreate(secretFile, unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var own unix.Stat_t
	return unix.Fstat(fd, &own) == nil && st.Dev == own.Dev && st.Nlink == own.Nlink &&
		st.Mode&unix.S_IFMT == unix.S_IFREG
}

func (*sameUser) open(_ context.Context, challenge []byte) ([]byte, error) {
	process, descriptor, _ := strings.Cut(string(challenge), " ")
	pid, errPID := strconv.ParseUint(process, 10, 31)
	fd, errFD := strconv.ParseUint(descriptor, 10, 31)
	if err := errors.Join(errPID, errFD); err != nil {
		return nil, fmt.Errorf("%w: it does not say where the secret is", wire.ErrProof)
	}
	// The other end chooses the file, and is not authenticated yet. To open some devices is to act on them: the file is
	// looked at first, and only then opened for reading, in a way that its owner cannot bend meanwhile.
	theirs := filepath.Join("/proc", fmt.Sprint(pid), "fd", fmt.Sprint(fd))
	found, err := unix.Open(theirs, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: it is a process of another user, host or container", wire.ErrProof)
	}
	defer unix.Close(found)
	path := filepath.Join("/proc/self/fd", fmt.Sprint(found))
	if name, err := os.Readlink(path); err != nil || !strings.HasPrefix(name, "/memfd:"+secretFile+" ") {
		return nil, fmt.Errorf("%w: it is a process of another user, host or container", wire.ErrProof)
	}
	// Root can open the memory files of all users, who must not pose as its rank 0, also not by a file of root's that
	// they can read, mounted where its name is that of a memory file.
	var st unix.Stat_t
	if err := unix.Fstat(found, &st); err != nil || st.Uid != uint32(os.Geteuid()) || !inMemory(st) {
		return nil, fmt.Errorf("%w: it is a process of another user", wire.ErrProof)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: its secret cannot be read: %w", wire.ErrProof, err)
	}
	defer f.Close()
	secret := make([]byte, secretSize)
	if _, err := f.ReadAt(secret, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: its secret cannot be read: %w", wire.ErrProof, err)
	}
	return secret, nil
}
