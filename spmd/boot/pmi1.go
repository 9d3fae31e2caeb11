package boot

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
)

// PMI-1 is what MPICH's mpiexec (hydra) and its relatives speak: lines of
// cmd=NAME key=value ... over an inherited descriptor (PMI_FD) or a connection
// to PMI_PORT. A rank that has begun to speak it and ends without finalize
// ends the whole job.

func detectPMI1(env Environ) (connect, error) {
	_, fd := env("PMI_FD")
	_, port := env("PMI_PORT")
	if !fd && !port {
		return nil, nil
	}
	return requirePMI1(env)
}

func requirePMI1(env Environ) (connect, error) {
	port := readVariables(env, "PMI_PORT", "PMI_ID")
	if !port.has("PMI_PORT") {
		return inheritPMI1(env)
	}
	if err := port.incomplete("PMI-1"); err != nil {
		return nil, err
	}
	id, err := port.integer("PMI_ID", 0, MaxSize-1)
	if err != nil {
		return nil, err
	}
	return joinStore("pmi1", env, func(ctx context.Context) (store, error) {
		return dialPMI1(ctx, env, port.values["PMI_PORT"], id)
	}), nil
}

func inheritPMI1(env Environ) (connect, error) {
	v := readVariables(env, "PMI_FD", "PMI_RANK", "PMI_SIZE")
	if err := v.incomplete("PMI-1"); err != nil {
		return nil, err
	}
	return fromPMIFD(v, func(c *pmiConn, rank, size int) connect {
		return joinStore("pmi1", env, func(ctx context.Context) (store, error) {
			return openPMI1(ctx, c, env, rank, size)
		})
	})
}

// fromPMIFD reads the variables that PMI-1 and PMI-2 have in common.
func fromPMIFD(v variables, use func(c *pmiConn, rank, size int) connect) (connect, error) {
	rank, size, err := v.rankAndSize("PMI_RANK", "PMI_SIZE")
	if err != nil {
		return nil, err
	}
	fd, err := v.integer("PMI_FD", 0, 1<<20)
	if err != nil {
		return nil, err
	}
	return use(&pmiConn{fd: fd}, rank, size), nil
}

// pmiConn is a connection to a process manager.
type pmiConn struct {
	fd   int // until it is opened
	file interface {
		io.ReadWriteCloser
		SetDeadline(time.Time) error
	}
	in   *bufio.Reader
	stop func() bool
}

// maxPMI bounds a message of PMI.
const maxPMI = 64 << 10

// open takes over the descriptor. When ctx ends, so do all waits.
func (c *pmiConn) open(ctx context.Context) error {
	// It may have been closed, and be one of Go's own by now.
	var found unix.Stat_t
	err := unix.Fstat(c.fd, &found)
	if err == nil && found.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = errors.New("it is something else than a socket")
	}
	if err == nil { // a descriptor that blocks could not be given a deadline
		err = unix.SetNonblock(c.fd, true)
	}
	if err != nil {
		return fault.New(fault.Launch, "PMI_FD=%d is not the launcher's descriptor: %w", c.fd, err).
			WithHint("a wrapper between the launcher and perigee must not close it (Python: close_fds=False)")
	}
	unix.CloseOnExec(c.fd)
	c.use(ctx, os.NewFile(uintptr(c.fd), "PMI_FD"))
	return nil
}

func (c *pmiConn) use(ctx context.Context, file interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}) {
	c.file, c.in = file, bufio.NewReaderSize(file, maxPMI)
	c.stop = context.AfterFunc(ctx, func() { file.SetDeadline(time.Unix(1, 0)) })
}

func (c *pmiConn) close() error {
	c.stop()
	return c.file.Close()
}

func (c *pmiConn) send(message string) error {
	_, err := io.WriteString(c.file, message)
	return err
}

// line reads a line of key=value words. want is the value that cmd must have.
func (c *pmiConn) line(want string) (pmiReply, error) {
	data, err := c.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the process manager hung up")
		}
		return nil, err
	}
	reply := parsePMILine(string(data))
	if reply["cmd"] != want {
		return nil, fmt.Errorf("the process manager answered %.100q, not %s", data, want)
	}
	return reply, nil
}

// pmiReply is a message of PMI.
type pmiReply map[string]string

func parsePMILine(line string) pmiReply {
	m := pmiReply{}
	for word := range strings.FieldsSeq(line) {
		k, v, _ := strings.Cut(word, "=")
		m[k] = v
	}
	return m
}

// check makes an error of a return code that is not 0. Not all messages have one.
func (m pmiReply) check(what string) error {
	if rc, ok := m["rc"]; ok && rc != "0" {
		return fmt.Errorf("%s: rc=%s %s", what, rc, cmp.Or(m["msg"], m["errmsg"]))
	}
	return nil
}

// integer reads a number that must be there and in range.
func (m pmiReply) integer(key string, low, high int) (int, error) {
	n, err := strconv.Atoi(m[key])
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("the process manager says %s=%.20q: want an integer from %d to %d", key, m[key], low, high)
	}
	return n, nil
}

// pmi1 is a store.
type pmi1 struct {
	conn       *pmiConn
	rank, size int
	local      int
	oneHost    bool
	store      string
}

func openPMI1(ctx context.Context, c *pmiConn, env Environ, rank, size int) (*pmi1, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	return greetPMI1(&pmi1{conn: c, rank: rank, size: size}, env)
}

// dialPMI1 connects to a process manager that sends rank and size only then.
func dialPMI1(ctx context.Context, env Environ, address string, id int) (*pmi1, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("PMI_PORT: %w", err)
	}
	c := &pmiConn{}
	c.use(ctx, conn)
	p := &pmi1{conn: c}
	if err := p.introduce(id); err != nil {
		c.close()
		return nil, err
	}
	return greetPMI1(p, env)
}

func (p *pmi1) introduce(id int) error {
	ack, err := p.ask(fmt.Sprintf("cmd=initack pmiid=%d\n", id), "initack")
	if err == nil {
		err = ack.check("initack")
	}
	if err != nil {
		return err
	}
	set := pmiReply{}
	for _, key := range []string{"size", "rank", "debug"} {
		m, err := p.conn.line("set")
		if err != nil {
			return err
		}
		set[key] = m[key]
	}
	if p.size, err = set.integer("size", 1, MaxSize); err != nil {
		return err
	}
	p.rank, err = set.integer("rank", 0, p.size-1)
	return err
}

func greetPMI1(p *pmi1, env Environ) (*pmi1, error) {
	v := readVariables(env, "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
	p.local = -1
	if n, err := v.integer("MPI_LOCALRANKID", 0, p.size-1); err == nil {
		p.local = n
	}
	n, err := v.integer("MPI_LOCALNRANKS", 1, p.size)
	p.oneHost = err == nil && n == p.size
	if err := p.greet(); err != nil {
		p.conn.close()
		return nil, err
	}
	return p, nil
}

func (p *pmi1) greet() error {
	m, err := p.ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init")
	if err == nil {
		err = m.check("init")
	}
	if err != nil {
		return err
	}
	maxes, err := p.ask("cmd=get_maxes\n", "maxes")
	if err != nil {
		return err
	}
	if _, err := maxes.integer("vallen_max", pieceSize+8, 1<<30); err != nil {
		return err
	}
	name, err := p.ask("cmd=get_my_kvsname\n", "my_kvsname")
	p.store = name["kvsname"]
	return err
}

func (p *pmi1) ask(message, want string) (pmiReply, error) {
	if err := p.conn.send(message); err != nil {
		return nil, err
	}
	return p.conn.line(want)
}

func (p *pmi1) Rank() int      { return p.rank }
func (p *pmi1) Size() int      { return p.size }
func (p *pmi1) LocalRank() int { return p.local }
func (p *pmi1) OneHost() bool  { return p.oneHost }

func (p *pmi1) Put(key, value string) error {
	m, err := p.ask(fmt.Sprintf("cmd=put kvsname=%s key=%s value=%s\n", p.store, key, value), "put_result")
	if err != nil {
		return err
	}
	return m.check("put")
}

func (p *pmi1) Fence() error {
	m, err := p.ask("cmd=barrier_in\n", "barrier_out")
	if err != nil {
		return err
	}
	return m.check("barrier")
}

func (p *pmi1) Get(key string) (string, error) {
	m, err := p.ask(fmt.Sprintf("cmd=get kvsname=%s key=%s\n", p.store, key), "get_result")
	if err != nil {
		return "", err
	}
	return m["value"], m.check("get")
}

func (p *pmi1) Done() error {
	_, err := p.ask("cmd=finalize\n", "finalize_ack")
	return errors.Join(err, p.conn.close())
}
