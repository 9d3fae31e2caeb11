package boot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/spmd/wire"
)

// Limited makes an error of a kind, or of the kind Resource where a limit of the process or the machine is the cause.
func Limited(kind fault.Kind, format string, args ...any) *fault.Error {
	err := fault.New(kind, format, args...)
	if wire.LacksPorts(err) {
		err.Kind = fault.Resource
		return err.WithHint("this host has no local port left: widen net.ipv4.ip_local_port_range%s", portRange())
	}
	for _, limit := range []error{unix.EFBIG, unix.ENOSPC, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, limit) {
			err.Kind = fault.Resource
			return err.WithHint("raise the limits on file sizes, open files and memory (ulimit -f, -n, -v)")
		}
	}
	return err
}

// portRange says which local ports the host has, "" where it does not say.
func portRange() string {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return ""
	}
	return fmt.Sprintf(", now %s (sysctl)", strings.Join(strings.Fields(string(data)), " to "))
}

// NoLoopback is the failure of a rank that reaches no other since the loopback interface is down; nil if err is none.
func NoLoopback(err error) *fault.Error {
	if !wire.LacksLoopback(err) {
		return nil
	}
	return fault.New(fault.Launch, "the ranks of this host cannot reach each other: %w", err).
		WithHint("the loopback interface is down, or has no address: bring it up (ip link set lo up)")
}
