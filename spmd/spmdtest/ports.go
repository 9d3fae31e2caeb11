package spmdtest

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

// The ports of FreePorts lie below those that the kernel gives to programs that ask for any,
// and below those that ranks derive from the name of their job: between a look at one and
// its use no other program gets it by chance. Processes begin at different places.
const (
	firstPort  = 10000
	portCount  = 10000
	ofAProcess = 64
)

var portsLooked atomic.Int64

// FreePort returns a TCP port on which no process listens.
func FreePort(t testing.TB) int {
	t.Helper()
	ports, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}

// FreePorts returns TCP ports on which no process listens.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range portCount {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + int((int64(os.Getpid())*ofAProcess+portsLooked.Add(1))%portCount)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l.Close()
		ports = append(ports, port)
	}
	return nil, errors.New("all ports are in use")
}
