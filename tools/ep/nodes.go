package ep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/spmd/boot"
	"perigee/spmd/launch"
	"perigee/tools/run"
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

// launchGrace is how long ranks may go on after the command was asked to end, or one of them has failed.
// Tests replace it.
var launchGrace = 5 * time.Second

// noticing is how long ranks have to notice themselves that srun has died, and to say so in the result, before they are
// asked to end: that would be a signal there.
const noticing = time.Second

// defaultPort is that of the original's store.
const defaultPort = "9999"

// nodes returns nil where there is one node, or where a launcher has started this process as one rank: then WORLD_SIZE
// is the launcher's. srun may also start the one command of each node, and that of a single one: the same line should
// start as many ranks on it as on each of several.
func (f nodeFlags) nodes(env func(string) string) (*nodes, error) {
	isNode, err := f.isNode(env)
	if err != nil {
		return nil, err
	}
	if isRank(env) && !isNode {
		if f != (nodeFlags{}) {
			return nil, fault.New(fault.Usage,
				"--world-size, --rank and --master-addr have no effect on a process that a launcher has started as one rank").
				WithHint("leave them out; or start one process on each node, as many as --world-size says; " +
					"a shell of srun --pty is a rank, too, unless --launcher local says otherwise")
		}
		return nil, nil
	}
	count, err := number(f.WorldSize, "WORLD_SIZE", env, 1, value.AtLeast(1))
	if err != nil {
		return nil, err
	}
	node, err := number(f.Rank, "RANK", env, 0, value.Whole(0, int64(count)-1))
	if err != nil {
		return nil, err
	}
	switch {
	case count == 1 && isNode:
		return &nodes{count: 1}, nil
	case count == 1:
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

// isRank reports whether a launcher has started this process as one of its ranks. Ranks of a script that says who they
// are have LOCAL_RANK.
func isRank(env func(string) string) bool {
	launcher, _ := boot.RankOf(environ(env))
	return launcher != "" || env("LOCAL_RANK") != ""
}

// environ is an environment in which a variable that is empty is not set.
func environ(env func(string) string) boot.Environ {
	return func(variable string) (value string, set bool) {
		value = env(variable)
		return value, value != ""
	}
}

// isNode reports whether srun has started this process as the only one of its node: in a step with one on each of as
// many nodes as the flag or the variable says, or alone in a step, of which each node has one. The error is that of
// tasks that may be neither that nor the ranks: they would be a world that was not asked for. srun starts such where it
// inherits the number of tasks from the job, and leaves --ntasks-per-node aside.
func (f nodeFlags) isNode(env func(string) string) (bool, error) {
	count, err := number(f.WorldSize, "WORLD_SIZE", env, 0, value.AtLeast(0)) // a step of one task alone says nothing
	onNodes, tasks := step(env)
	if err != nil || count < 1 || onNodes < 1 || tasks < 1 {
		return false, nil
	}
	if onNodes == count && tasks == count {
		return true, nil
	}
	if f.Rank == nil && env("RANK") == "" { // WORLD_SIZE alone may be left from anything
		return false, nil
	}
	rank, err := number(f.Rank, "RANK", env, 0, value.AtLeast(0))
	switch task := stepNumber(env, "SLURM_PROCID"); {
	case err != nil:
		return false, err
	case onNodes == 1 && tasks == 1:
		return true, nil
	case tasks != count:
		return false, fault.New(fault.Usage, "WORLD_SIZE is %d, but this step of srun has %s on %s", count,
			cli.Count(tasks, "task"), cli.Count(onNodes, "node")).WithHint("%s", startNodes(count))
	case onNodes == 1 && rank != task && rank != 0 && env("MASTER_PORT") == "":
		// On several nodes ranks may be numbered in another order. In a batch script $SLURM_PROCID is 0.
		return false, fault.New(fault.Usage, "RANK is %d, but this is task %d of %d that srun has started on one node", rank,
			task, tasks).WithHint("%s", startNodes(count))
	}
	return false, nil
}

// step returns on how many nodes, and with how many tasks, the step of srun runs of which this process is a task; 0
// where it is none, or where the user or a script has said that it is a rank.
func step(env func(string) string) (onNodes, tasks int) {
	_, slurms := boot.RankOf(environ(env))
	if !slurms || env("LOCAL_RANK") != "" || !slices.Contains([]string{"", "auto", "local"}, env(boot.EnvLauncher)) {
		return 0, 0
	}
	return stepNumber(env, "SLURM_STEP_NUM_NODES"), stepNumber(env, "SLURM_STEP_NUM_TASKS")
}

// isOnlyTask reports whether this process is all of a step of srun.
func isOnlyTask(env func(string) string) bool {
	onNodes, tasks := step(env)
	return onNodes == 1 && tasks == 1
}

// startNodes is how to start what [nodeFlags.isNode] refuses.
func startNodes(count int) string {
	return fmt.Sprintf("srun --nodes %[1]d --ntasks %[1]d starts one command on each node, srun --nodes 1 --ntasks 1 "+
		"that of one node; where each task is a rank, say --launcher slurm, or unset RANK and WORLD_SIZE", count)
}

// stepNumber reads a number from a variable of Slurm, -1 if there is none.
func stepNumber(env func(string) string, variable string) int {
	n, err := strconv.Atoi(env(variable))
	if err != nil {
		return -1
	}
	return n
}

// number is the value of a flag, or else of its variable.
func number(given *int, variable string, env func(string) string, fallback int, f value.Field) (int, error) {
	text := env(variable)
	if given != nil {
		text = strconv.Itoa(*given)
	}
	if text == "" {
		return fallback, nil
	}
	n, err := f.Parse(text)
	if err != nil {
		return 0, fault.New(fault.Usage, "%s: %w", variable, err).
			WithHint("WORLD_SIZE is how many nodes there are, RANK which of them this is, from 0")
	}
	return int(n.(int64)), nil
}

// run starts the ranks of this node and waits for them. Rank 0 writes to the command's own output; the lines of the
// others have their rank in front. The ranks find each other at the port of node 0, as those of torchrun do, and all
// end when one has failed: the command ends only those that do not. They are ended, too, when the command is, or srun
// dies that has started it.
func (n *nodes) run(ctx context.Context, streams cli.Streams, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fault.New(fault.Launch, "find the program to start ranks with: %w", err)
	}
	ctx, again, stop := run.UntilSignal(ctx)
	defer stop()
	ctx, release := boot.UnderSrun(ctx, os.LookupEnv)
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	streams = run.ForRanks(streams)
	output := launch.NewOutput(streams.Out, streams.Err, func(err error) { cancel(cli.LostOutput(err)) })
	ranks := make([]*exec.Cmd, n.perNode)
	var mu sync.Mutex
	errs := slices.Repeat([]error{errKilled}, n.perNode)
	var failed sync.Once
	failure, done := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for local := range ranks {
		cmd := exec.Command(program, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C at the terminal reaches the command alone
		cmd.Env = append(os.Environ(), n.variables(local)...)
		ended := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if errs[local] = err; err != nil {
				failed.Do(func() { close(failure) })
			}
		}
		over := make(chan struct{})
		if err := output.Start(cmd, n.node*n.perNode+local, over, &all); err != nil {
			ended(err)
			continue
		}
		ranks[local] = cmd
		all.Go(func() {
			defer close(over)
			ended(cmd.Wait())
		})
	}
	go func() { all.Wait(); close(done) }()
	n.supervise(ctx, ranks, failure, done, again)
	select {
	case <-done:
	case <-time.After(time.Second): // what is left was killed, and this command's output is not read
	}
	mu.Lock()
	defer mu.Unlock()
	return n.outcome(ctx, errs)
}

// errKilled is that of a rank which has not ended for this command.
var errKilled = errors.New("it was killed, and has not ended yet")

// supervise returns when all ranks have ended, or been killed: those that go on for launchGrace after ctx has ended, or
// the first rank has failed. Rank 0 may be writing the result.
func (n *nodes) supervise(ctx context.Context, ranks []*exec.Cmd, failure, done, again <-chan struct{}) {
	signalAll := func(ranks []*exec.Cmd, s os.Signal) {
		for _, cmd := range ranks {
			if cmd != nil {
				cmd.Process.Signal(s) // one that has ended does not mind
			}
		}
	}
	wait := func(grace time.Duration) (over bool) {
		select {
		case <-done:
			return true
		case <-again:
		case <-time.After(grace):
		}
		return false
	}
	select {
	case <-done:
		return
	case <-failure:
	case <-ctx.Done():
		if fault.KindOf(context.Cause(ctx)) == fault.RankLost && wait(noticing) {
			return
		}
		signalAll(ranks, syscall.SIGTERM)
	}
	if wait(launchGrace) {
		return
	}
	if n.node == 0 {
		signalAll(ranks[1:], syscall.SIGKILL)
		if wait(launch.StoringGrace) {
			return
		}
	}
	signalAll(ranks, syscall.SIGKILL)
}

// outcome is the error of the ranks that have ended so. Each has said what was wrong with it, but for what this command
// alone knows.
func (n *nodes) outcome(ctx context.Context, errs []error) error {
	cause := context.Cause(ctx)
	if fault.KindOf(cause) == fault.Output { // of other ranks than 0
		return cause
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	switch {
	case ctx.Err() == nil:
	case fault.KindOf(cause) == fault.Interrupt:
		return cli.Reported{Err: cause}
	default:
		return cause
	}
	for local, err := range errs {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
			return cli.Reported{Err: fault.New(fault.Kind(exit.ExitCode()), "rank %d ended with exit code %d",
				n.node*n.perNode+local, exit.ExitCode())}
		}
	}
	for local, err := range errs {
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
		"TORCHELASTIC_RUN_ID=" + boot.NodeCommand, // ranks of torchrun itself end with their launcher
	}
}
