package boot

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// manager is a process manager that speaks PMI-1 and PMI-2, as their
// descriptions have it, to ranks in this process.
type manager struct {
	t    testing.TB
	size int
	// spoil may change an answer before it is sent. It may return "" for none.
	spoil func(rank int, command, answer string) string

	mu      sync.Mutex
	waiting []chan struct{}
	store   map[string]string // visible after the next fence only
	visible map[string]string
	gone    []bool // said finalize
	serving sync.WaitGroup
}

func newManager(t testing.TB, size int) *manager {
	m := &manager{t: t, size: size, store: map[string]string{}, visible: map[string]string{}, gone: make([]bool, size)}
	t.Cleanup(m.serving.Wait)
	return m
}

// inherit returns a descriptor for PMI_FD.
func (m *manager) inherit(rank int) int {
	m.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "manager")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { conn.Close() })
	m.serving.Go(func() { m.serve(conn, rank) })
	return fds[1]
}

// listen returns a PMI_PORT.
func (m *manager) listen() string {
	m.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { l.Close() })
	m.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m.t.Cleanup(func() { conn.Close() })
			m.serving.Go(func() { m.serve(conn, -1) })
		}
	})
	return l.Addr().String()
}

func (m *manager) serve(conn net.Conn, rank int) {
	in := bufio.NewReader(conn)
	two := false
	for {
		var cmd pmiReply
		if two {
			var err error
			if cmd, err = readPMI2Message(in); err != nil {
				return
			}
		} else {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			cmd = parsePMILine(line)
		}
		if cmd["cmd"] == "initack" {
			fmt.Sscan(cmd["pmiid"], &rank)
		}
		answer := m.answer(rank, two, cmd)
		if m.spoil != nil {
			answer = m.spoil(rank, cmd["cmd"], answer)
		}
		if two {
			answer = fmt.Sprintf("%-6d%s", len(answer), answer)
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
		two = two || cmd["cmd"] == "init" && cmd["pmi_version"] == "2"
	}
}

func (m *manager) answer(rank int, two bool, cmd pmiReply) string {
	switch c := cmd["cmd"]; c {
	case "initack":
		return fmt.Sprintf("cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", m.size, rank)
	case "init":
		return fmt.Sprintf("cmd=response_to_init rc=0 pmi_version=%s pmi_subversion=0\n", cmd["pmi_version"])
	case "get_maxes":
		return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
	case "get_my_kvsname":
		return "cmd=my_kvsname kvsname=kvs_1\n"
	case "fullinit":
		return fmt.Sprintf("cmd=fullinit-response;rc=0;pmi-version=2;rank=%s;size=%d;appnum=-1;", cmd["pmirank"], m.size)
	case "put", "kvs-put":
		if len(cmd["key"]) > 63 || len(cmd["value"]) > 255 || !two && cmd["kvsname"] != "kvs_1" {
			m.t.Errorf("rank %d put %v", rank, cmd)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.store[cmd["key"]] = cmd["value"]
		return map[bool]string{false: "cmd=put_result rc=0 msg=success\n", true: "cmd=kvs-put-response;rc=0;"}[two]
	case "barrier_in", "kvs-fence":
		m.fence()
		return map[bool]string{false: "cmd=barrier_out\n", true: "cmd=kvs-fence-response;rc=0;"}[two]
	case "get", "kvs-get":
		m.mu.Lock()
		v, found := m.visible[cmd["key"]]
		m.mu.Unlock()
		switch {
		case two:
			return fmt.Sprintf("cmd=kvs-get-response;rc=0;found=%s;value=%s;", strings.ToUpper(fmt.Sprint(found)), v)
		case found:
			return fmt.Sprintf("cmd=get_result rc=0 msg=success value=%s\n", v)
		}
		return fmt.Sprintf("cmd=get_result rc=-1 msg=key_%s_not_found\n", cmd["key"])
	case "finalize":
		m.mu.Lock()
		defer m.mu.Unlock()
		m.gone[rank] = true
		return map[bool]string{false: "cmd=finalize_ack\n", true: "cmd=finalize-response;rc=0;"}[two]
	default:
		m.t.Errorf("rank %d said %v", rank, cmd)
		return "\n"
	}
}

func (m *manager) fence() {
	m.mu.Lock()
	here := make(chan struct{})
	m.waiting = append(m.waiting, here)
	if len(m.waiting) == m.size {
		for k, v := range m.store {
			m.visible[k] = v
		}
		for _, w := range m.waiting {
			close(w)
		}
		m.waiting = nil
	}
	m.mu.Unlock()
	select {
	case <-here:
	case <-m.t.Context().Done():
	}
}

// environments are those of all ranks, by the way they find the manager.
var environments = map[string]func(m *manager, rank int) map[string]string{
	"pmi1": func(m *manager, rank int) map[string]string {
		return map[string]string{
			"PMI_FD": fmt.Sprint(m.inherit(rank)), "PMI_RANK": fmt.Sprint(rank), "PMI_SIZE": fmt.Sprint(m.size),
			"MPI_LOCALRANKID": fmt.Sprint(rank), "MPI_LOCALNRANKS": fmt.Sprint(m.size),
		}
	},
	"pmi1 port": func(m *manager, rank int) map[string]string {
		m.mu.Lock()
		address := m.visible["address"]
		m.mu.Unlock()
		if address == "" {
			address = m.listen()
			m.mu.Lock()
			m.visible["address"] = address
			m.mu.Unlock()
		}
		return map[string]string{"PMI_PORT": address, "PMI_ID": fmt.Sprint(rank), EnvIface: "lo"}
	},
	"pmi2": func(m *manager, rank int) map[string]string {
		return map[string]string{
			"PMI_FD": fmt.Sprint(m.inherit(rank)), "PMI_RANK": fmt.Sprint(rank), "PMI_SIZE": fmt.Sprint(m.size), "PMI_JOBID": "7.0",
			"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_LOCALID": fmt.Sprint(rank), "SLURMD_NODENAME": "node9",
		}
	},
}
