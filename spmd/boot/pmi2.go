package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// PMI-2 is what srun --mpi=pmi2 speaks over PMI_FD. After a first line of
// PMI-1, a message is its length in six characters and key=value; pairs. A
// value that Slurm does not expect can hang the whole step: a store's values
// are far shorter than its limit of 1024 and have no semicolons.

// detectPMI2 recognises Slurm's PMI-2. What distinguishes it from PMI-1, which also
// sets PMI_FD, is PMI_JOBID, which hydra (whose own variable is
// MPI_LOCALRANKID) does not set but may inherit.
func detectPMI2(env Environ) (connect, error) {
	v := readVariables(env, "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_JOBID")
	if _, hydra := env("MPI_LOCALRANKID"); hydra || !v.has("PMI_FD") || !v.has("PMI_JOBID") {
		return nil, nil
	}
	return requirePMI2(env)
}

func requirePMI2(env Environ) (connect, error) {
	v := readVariables(env, "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_JOBID")
	if err := v.incomplete("PMI-2"); err != nil {
		return nil, err
	}
	return fromPMIFD(v, func(c *pmiConn, rank, size int) connect {
		return joinStore("pmi2", env, func(ctx context.Context) (store, error) {
			return openPMI2(ctx, c, env, rank, size, v.values["PMI_JOBID"])
		})
	})
}

// pmi2 is a store.
type pmi2 struct {
	conn       *pmiConn
	rank, size int
	local      int
	oneHost    bool
	job        string
}

func openPMI2(ctx context.Context, c *pmiConn, env Environ, rank, size int, job string) (*pmi2, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	p := &pmi2{conn: c, rank: rank, size: size, job: job, local: slurmLocalRank(env, size), oneHost: slurmOneHost(env)}
	if err := p.greet(); err != nil {
		c.close()
		return nil, err
	}
	return p, nil
}

func (p *pmi2) greet() error {
	if err := p.conn.send("cmd=init pmi_version=2 pmi_subversion=0\n"); err != nil {
		return err
	}
	m, err := p.conn.line("response_to_init")
	if err == nil {
		err = m.check("init")
	}
	if err == nil && m["pmi_version"] != "2" {
		err = fmt.Errorf("the process manager speaks version %.10q of PMI, not 2", m["pmi_version"])
	}
	if err != nil {
		return err
	}
	full, err := p.ask("fullinit", "pmijobid", p.job, "pmirank", strconv.Itoa(p.rank), "threaded", "FALSE")
	if err != nil {
		return err
	}
	rank, errRank := full.integer("rank", 0, MaxSize)
	size, errSize := full.integer("size", 1, MaxSize)
	if err := errors.Join(errRank, errSize); err != nil {
		return err
	}
	if rank != p.rank || size != p.size {
		return fmt.Errorf("the process manager says rank %d of %d, the environment PMI_RANK=%d PMI_SIZE=%d", rank, size,
			p.rank, p.size)
	}
	return nil
}

// ask sends a command and its key, value pairs, and returns the answer.
func (p *pmi2) ask(cmd string, pairs ...string) (pmiReply, error) {
	if err := p.conn.send(formatPMI2(cmd, pairs...)); err != nil {
		return nil, err
	}
	m, err := readPMI2Message(p.conn.in)
	if err != nil {
		return nil, err
	}
	if want := cmd + "-response"; m["cmd"] != want {
		return nil, fmt.Errorf("the process manager answered %.40q, not %s", m["cmd"], want)
	}
	return m, m.check(cmd)
}

func formatPMI2(cmd string, pairs ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cmd=%s;", cmd)
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s=%s;", pairs[i], pairs[i+1])
	}
	return fmt.Sprintf("%-6d%s", b.Len(), b.String())
}

// readPMI2Message reads one message of at most maxPMI bytes.
func readPMI2Message(r io.Reader) (pmiReply, error) {
	head := make([]byte, 6)
	if _, err := io.ReadFull(r, head); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the process manager hung up")
		}
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(head)))
	if err != nil || n < 0 || n > maxPMI {
		return nil, fmt.Errorf("the process manager announced a message of length %q", head)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("the process manager broke off in a message: %w", err)
	}
	m := pmiReply{}
	for pair := range strings.SplitSeq(string(body), ";") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			m[strings.TrimSpace(k)] = v
		}
	}
	return m, nil
}

func (p *pmi2) Rank() int      { return p.rank }
func (p *pmi2) Size() int      { return p.size }
func (p *pmi2) LocalRank() int { return p.local }
func (p *pmi2) OneHost() bool  { return p.oneHost }

func (p *pmi2) Put(key, value string) error {
	_, err := p.ask("kvs-put", "key", key, "value", value)
	return err
}

func (p *pmi2) Fence() error {
	_, err := p.ask("kvs-fence")
	return err
}

func (p *pmi2) Get(key string) (string, error) {
	m, err := p.ask("kvs-get", "jobid", p.job, "srcid", "-1", "key", key)
	if err != nil {
		return "", err
	}
	if !strings.EqualFold(m["found"], "TRUE") {
		return "", fmt.Errorf("kvs-get: there is no %s", key)
	}
	return m["value"], nil
}

func (p *pmi2) Done() error {
	_, err := p.ask("finalize")
	return errors.Join(err, p.conn.close())
}
