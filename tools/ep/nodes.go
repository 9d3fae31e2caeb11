package ep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
)

// The original tests run on several nodes by one command on each, which starts the ranks of its node: WORLD_SIZE is the
// number of nodes, RANK that of this node, and MASTER_ADDR the address of node 0.

// nodeFlags are the flags that say which node of how many this is. The variables stand for those that are not given.
type nodeFlags struct {
	WorldSize  *int   `name:"world-size"`
	Rank       *int   `name:"rank"`
	MasterAddr string `name:"master-addr"`
}

// nodes is a job on several nodes as one of them sees it.
type nodes struct {
	count, node, perNode int
	master, port         string
}

// launchGrace is how long ranks may go on after the command was asked to end.
const launchGrace = 5 * time.Second

// defaultPort is that of the original's store.
const defaultPort = "9999"

// nodes returns nil where there is one node, or where a launcher has started this process as one rank: then WORLD_SIZE
// is the launcher's. srun may also start the one command of each node.
func (f nodeFlags) nodes(env func(string) string) (*nodes, error) {
	if isRank(env) && !f.isNode(env) {
		if f != (nodeFlags{}) {
			return nil, fault.New(fault.Usage,
				"--world-size, --rank and --master-addr have no effect on a process that a launcher has started as one rank").
				WithHint("leave them out; or start one process on each node, as many as --world-size says")
		}
		return nil, nil
	}
	count, err := number(f.WorldSize, "WORLD_SIZE", env, 1)
	if err != nil {
		return nil, err
	}
	if count < 1 {
		return nil, fault.New(fault.Usage, "WORLD_SIZE is %d, want 1 or more: the number of nodes", count)
	}
	node, err := number(f.Rank, "RANK", env, 0)
	if err != nil {
		return nil, err
	}
	if node < 0 || node >= count {
		return nil, fault.New(fault.Usage, "RANK is %d, want 0 to %d: the number of this node of WORLD_SIZE=%d",
			node, count-1, count)
	}
	if count == 1 {
		return nil, nil
	}
	n := &nodes{count: count, node: node, perNode: 8, master: cmp.Or(f.MasterAddr, env("MASTER_ADDR"), "127.0.0.1"),
		port: cmp.Or(env("MASTER_PORT"), defaultPort)}
	if node > 0 && (n.master == "127.0.0.1" || n.master == "localhost") {
		return nil, fault.New(fault.Usage, "node %d cannot reach node 0 at %s, which is node %d itself", node,
			n.master, node).
			WithHint("set MASTER_ADDR or --master-addr to the name or address of node 0")
	}
	return n, nil
}

// isRank reports whether a launcher has started this process as one of its ranks.
func isRank(env func(string) string) bool {
	return slices.ContainsFunc([]string{"LOCAL_RANK", "SLURM_PROCID", "PMI_RANK", "PMIX_RANK", "PERIGEE_RANK"},
		func(variable string) bool { return env(variable) != "" })
}

// isNode reports whether srun has started this process as the only one of its node, on as many nodes as the flag or the
// variable says. Ranks of a script that says who they are have LOCAL_RANK.
func (f nodeFlags) isNode(env func(string) string) bool {
	count, err := number(f.WorldSize, "WORLD_SIZE", env, 1)
	if err != nil || count < 2 {
		return false
	}
	text := strconv.Itoa(count)
	return env("LOCAL_RANK") == "" && env("PERIGEE_RANK") == "" && env("SLURM_PROCID") != "" &&
		env("SLURM_STEP_NUM_NODES") == text && env("SLURM_STEP_NUM_TASKS") == text
}

// number is the value of a flag, or else of its variable.
func number(given *int, variable string, env func(string) string, fallback int) (int, error) {
	text := env(variable)
	switch {
	case given != nil:
		return *given, nil
	case text == "":
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.New(fault.Usage, "%s is %q, want a whole number", variable, text)
	}
	return n, nil
}

// run starts the ranks of this node and waits for them. Rank 0 writes to the command's own output; the lines of the
// others have their rank in front. The ranks find each other at the port of node 0, as those of torchrun do.
func (n *nodes) run(ctx context.Context, streams cli.Streams, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fault.New(fault.Launch, "find the program to start ranks with: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, cli.Endings()...)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, n.perNode)
	for local := range n.perNode {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = launchGrace
		cmd.Env = append(os.Environ(), n.variables(local)...)
		rank := n.node*n.perNode + local
		cmd.Stdout, cmd.Stderr = streams.Out, streams.Err
		if rank > 0 {
			label := fmt.Sprintf("[%d] ", rank)
			cmd.Stdout, cmd.Stderr = &labelled{w: streams.Out, label: label}, &labelled{w: streams.Err, label: label}
		}
		all.Go(func() { errs[local] = cmd.Run() })
	}
	all.Wait()
	for local, err := range errs {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
			return cli.Reported{Err: fault.New(fault.Kind(exit.ExitCode()), "rank %d ended with exit code %d",
				n.node*n.perNode+local, exit.ExitCode())}
		}
		if err != nil {
			return fault.New(fault.RankLost, "rank %d: %w", n.node*n.perNode+local, err)
		}
	}
	return nil
}

// variables are those of torchrun for one rank.
func (n *nodes) variables(local int) []string {
	return []string{
		fmt.Sprintf("RANK=%d", n.node*n.perNode+local), fmt.Sprintf("WORLD_SIZE=%d", n.count*n.perNode),
		fmt.Sprintf("LOCAL_RANK=%d", local), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", n.perNode),
		"MASTER_ADDR=" + n.master, "MASTER_PORT=" + n.port, "PERIGEE_LAUNCHER=torchrun",
		"TORCHELASTIC_RUN_ID=perigee ep", // ranks of torchrun itself end with their launcher
	}
}

// labelled writes whole lines with a label in front.
type labelled struct {
	w     io.Writer
	label string
	rest  []byte
}

func (l *labelled) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		i := slices.Index(l.rest, '\n')
		if i < 0 {
			return len(data), nil
		}
		if _, err := io.WriteString(l.w, l.label+string(l.rest[:i+1])); err != nil {
			return 0, err
		}
		l.rest = l.rest[i+1:]
	}
}
