package boot

import (
	"context"
	"net"
	"os"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot/watch"
)

// The variables through which perigee's own launcher speaks to its ranks. The
// connection to the launcher is an inherited descriptor.
const (
	EnvRank    = "PERIGEE_RANK"
	EnvSize    = "PERIGEE_SIZE"
	EnvControl = "PERIGEE_CONTROL_FD"
)

func detectLocal(env Environ) (connect, error) {
	v := readVariables(env, EnvRank, EnvSize, EnvControl)
	if v.none() {
		return nil, nil
	}
	if err := v.incomplete("perigee run"); err != nil {
		return nil, err
	}
	rank, size, err := v.rankAndSize(EnvRank, EnvSize)
	if err != nil {
		return nil, err
	}
	fd, err := v.integer(EnvControl, 3, 1<<20)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ Watcher) (*Process, error) {
		f := os.NewFile(uintptr(fd), "launcher")
		defer f.Close()
		conn, err := net.FileConn(f)
		if err != nil {
			return nil, fault.New(fault.Launch, "%s=%d is not a connection to a launcher: %w", EnvControl, fd, err)
		}
		return Attach(ctx, conn, rank, size)
	}, nil
}

// Attach makes a rank of this host of a connection to its launcher's watch.Coordinator.
func Attach(ctx context.Context, conn net.Conn, rank, size int) (*Process, error) {
	c, secret, err := watch.NewClient(ctx, conn, watch.Self{Rank: rank, Size: size},
		watch.Leader{Name: "the launcher (perigee run)", Rank: -1})
	if err != nil {
		return nil, err
	}
	ip := localhost()
	return &Process{
		Launcher: "local", Rank: rank, Size: size, LocalRank: rank,
		Secret: secret, Listen: net.JoinHostPort(ip, "0"), IPs: []string{ip},
		Store: c, Monitor: c,
	}, nil
}
