package ep

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/nixl/engines"
	"perigee/tools/run"
)

// playCmd is a command that runs a scenario, on one node or on several. The flags of the original tests work as they
// do there: --world-size, --rank and --master-addr are about nodes, and --nvlink-backend none keeps UCX from shared
// memory.
type playCmd struct{ run.Shipped }

// Run runs the ranks: those of this node where there are several nodes, or one job.
func (c *playCmd) Run(streams cli.Streams, k *kong.Context) error {
	var here nodeFlags
	words, err := cli.Take(&here, c.Words)
	if err != nil {
		return fault.New(fault.Usage, "%w", cli.Plain(err)).WithHint("%s --help", k.Selected().FullPath())
	}
	names := k.Args[:len(k.Args)-len(c.Words)]
	if k.Selected().Tag.Get("scenario") == "ep_elastic" {
		rename(words)
	}
	c.Words = words
	j := c.Job(k)
	j.Process = slices.Concat(names, words)
	j.Prepare = limitTransports
	env := withFlags(j.Flags, streams.Env)
	several, err := here.nodes(env)
	if err != nil {
		return err
	}
	if several == nil && !isOnlyTask(env) {
		forgetNodes(env)
		return j.Run(context.Background(), streams)
	}
	if several != nil && several.count == 1 {
		return runHere(j, streams)
	}
	options, err := j.ScenarioOptions(streams)
	if errors.Is(err, run.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	processes, given := options["num_processes"].(int64)
	switch {
	case several != nil && given:
		several.perNode = int(processes)
	case several == nil && given: // srun has started the command that starts all ranks
		return runHere(j, streams)
	case several == nil:
		return j.Run(context.Background(), streams)
	}
	if j.Flags.Launcher != nil { // which is that of this command, not of the ranks
		j.Process = append(j.Process, "--launcher=torchrun")
	}
	return several.run(context.Background(), streams, j.Process)
}

// elsewhere are flags of NIXL's elastic test that have other names here.
var elsewhere = map[string]string{
	"--num-tokens": "--tokens", "--hidden-dim": "--hidden", "--num-topk": "--topk",
	"--num-experts-per-rank": "--experts-per-rank",
}

// rename gives the flags of NIXL's elastic test the names that they have here.
func rename(words []string) {
	for i, word := range words {
		flag, value, joined := strings.Cut(word, "=")
		if name := elsewhere[flag]; joined && name != "" {
			words[i] = name + "=" + value
		} else if name != "" {
			words[i] = name
		}
	}
}

// withFlags is the environment in which the job's flags stand for their variables.
func withFlags(flags run.Flags, env func(string) string) func(string) string {
	look := flags.Over(environ(env))
	return func(name string) string {
		value, _ := look(name)
		return value
	}
}

// runHere starts all ranks of the job, though srun has started this process: as the command of the only node.
func runHere(j run.Job, streams cli.Streams) error {
	local := "local"
	j.Flags.Launcher = &local
	return j.Run(context.Background(), streams)
}

// forgetNodes unsets the variables of the number of nodes where there is one: a launcher's variables have the same
// names.
func forgetNodes(env func(string) string) {
	if isRank(env) {
		return
	}
	for _, variable := range []string{"WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"} {
		os.Unsetenv(variable)
	}
}

// limitTransports sets what UCX may use. The library reads it when it is loaded, and ranks that are started inherit it.
func limitTransports(f run.Flags, options map[string]any) error {
	forbidden := "^sm"
	switch gpu := options["mem_type"] == "vram" || options["mem_type"] == "cuda"; {
	case options["nvlink_backend"] == "none" && gpu:
		forbidden = "^sm,cuda_ipc"
	case options["nvlink_backend"] == "none":
	case options["disable_ll_nvlink"] == true && gpu:
		forbidden = "^cuda_ipc"
	default:
		return nil
	}
	if engines.HostOnly(f.Engine) && options["nvlink_backend"] == "none" {
		return fault.New(fault.Usage, "--nvlink-backend none forbids shared memory, and --engine %s is nothing else", f.Engine).
			WithHint("--engine nixl")
	}
	const variable = "UCX_TLS"
	if os.Getenv(variable) != "" {
		return nil // the user has chosen
	}
	return os.Setenv(variable, forbidden)
}
