package ep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
)

// The original tests run on several nodes by one command on each, which starts the ranks of its node: WORLD_SIZE is the
// number of nodes, RANK that of this node, and MASTER_ADDR the address of node 0.

// Nodes is such a job as one node sees it.
type Nodes struct {
	Count, Node, PerNode int
	Master               string
	Port                 string
}

// launchGrace is how long ranks may go on after the command was told to end.
const launchGrace = 5 * time.Second

// defaultPort is that of the original's store.
const defaultPort = "9999"

// NodesOf reads the flags --world-size, --rank and --master-addr, or else the variables WORLD_SIZE, RANK and
// MASTER_ADDR. rest are the arguments without these flags. n is nil where there is one node, or where a launcher has
// started this process as one rank: then WORLD_SIZE is its own.
func NodesOf(args []string, env func(string) string) (n *Nodes, rest []string, err error) {
	flags, rest := take(args, "--world-size", "--rank", "--master-addr")
	if isRank(env) {
		return nil, rest, nil
	}
	count, err := number("--world-size", "WORLD_SIZE", flags["--world-size"], env, 1)
	if err != nil {
		return nil, rest, err
	}
	if count < 1 {
		return nil, rest, fault.New(fault.Usage, "WORLD_SIZE is %d, want 1 or more: the number of nodes", count)
	}
	node, err := number("--rank", "RANK", flags["--rank"], env, 0)
	if err != nil {
		return nil, rest, err
	}
	if node < 0 || node >= count {
		return nil, rest, fault.New(fault.Usage, "RANK is %d, want 0 to %d: the number of this node of WORLD_SIZE=%d",
			node, count-1, count)
	}
	if count == 1 {
		return nil, rest, nil
	}
	n = &Nodes{Count: count, Node: node, PerNode: 8, Master: first(flags["--master-addr"], env("MASTER_ADDR"),
		"127.0.0.1"),
		Port: first(env("MASTER_PORT"), defaultPort)}
	if v := value(rest, "--num-processes"); v != "" {
		if n.PerNode, err = strconv.Atoi(v); err != nil || n.PerNode < 1 {
			return nil, rest, fault.New(fault.Usage, "--num-processes is %q, want a whole number from 1 on", v)
		}
	}
	if node > 0 && (n.Master == "127.0.0.1" || n.Master == "localhost") {
		return nil, rest, fault.New(fault.Usage, "node %d cannot reach node 0 at %s, which is node %d itself", node,
			n.Master, node).
			WithHint("set MASTER_ADDR or --master-addr to the name or address of node 0")
	}
	return n, rest, nil
}

// isRank reports whether a launcher has started this process as one of its ranks.
func isRank(env func(string) string) bool {
	return slices.ContainsFunc([]string{"LOCAL_RANK", "SLURM_PROCID", "PMI_RANK", "PMIX_RANK", "PERIGEE_RANK"},
		func(variable string) bool { return env(variable) != "" })
}

func number(flag, variable, given string, env func(string) string, fallback int) (int, error) {
	name, text := flag, given
	if text == "" {
		name, text = variable, env(variable)
	}
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.New(fault.Usage, "%s is %q, want a whole number", name, text)
	}
	return n, nil
}

func first(texts ...string) string {
	i := slices.IndexFunc(texts, func(s string) bool { return s != "" })
	return texts[i]
}

// take removes flags with their values.
func take(args []string, flags ...string) (values map[string]string, rest []string) {
	values = map[string]string{}
	for i := 0; i < len(args); i++ {
		name, v, found := strings.Cut(args[i], "=")
		name = strings.ReplaceAll(name, "_", "-")
		switch {
		case !slices.Contains(flags, name):
			rest = append(rest, args[i])
		case found:
			values[name] = v
		case i+1 < len(args):
			i++
			values[name] = args[i]
		}
	}
	return values, rest
}

// Run starts the ranks of this node and waits for them. Rank 0 writes to the command's own output; the lines of the
// others have their rank in front. The ranks find each other at the port of node 0, as those of torchrun do.
func (n *Nodes) Run(ctx context.Context, streams cli.Streams, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fault.New(fault.Launch, "find the program to start ranks with: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, n.PerNode)
	for local := range n.PerNode {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = launchGrace
		cmd.Env = append(os.Environ(), n.variables(local)...)
		rank := n.Node*n.PerNode + local
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
			return cli.Told{Err: fault.New(fault.Kind(exit.ExitCode()), "rank %d ended with exit code %d",
				n.Node*n.PerNode+local, exit.ExitCode())}
		}
		if err != nil {
			return fault.New(fault.RankLost, "rank %d: %w", n.Node*n.PerNode+local, err)
		}
	}
	return nil
}

// variables are those of torchrun for one rank.
func (n *Nodes) variables(local int) []string {
	return []string{
		fmt.Sprintf("RANK=%d", n.Node*n.PerNode+local), fmt.Sprintf("WORLD_SIZE=%d", n.Count*n.PerNode),
		fmt.Sprintf("LOCAL_RANK=%d", local), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", n.PerNode),
		"MASTER_ADDR=" + n.Master, "MASTER_PORT=" + n.Port, "PERIGEE_LAUNCHER=torchrun",
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
