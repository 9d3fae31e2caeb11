package harness

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"perigee/spmd/spmdtest"
)

// StartEtcd starts an etcd for one test and returns the host:port at which it answers.
func StartEtcd(t testing.TB) string {
	t.Helper()
	Need(t, "etcd-server", "etcd")
	ports, err := spmdtest.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprint("127.0.0.1:", ports[0])
	clients, peers := "http://"+at, fmt.Sprint("http://127.0.0.1:", ports[1])
	Start(t, Command{Argv: []string{"etcd", "--data-dir", filepath.Join(t.TempDir(), "etcd"),
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients, "--listen-peer-urls=" + peers,
		"--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers, "--initial-cluster-state=new"}})
	answers := func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	if err := WaitFor("etcd", answers); err != nil {
		t.Fatal(err)
	}
	return at
}
