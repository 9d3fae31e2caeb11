package run

import (
	"context"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
)

// Cmd is the command perigee run.
type Cmd struct {
	Flags
	Yielding
	Scenario []string `arg:"" passthrough:"" placeholder:"SCENARIO" help:"A .lua file or the name of a shipped scenario, and its options (perigee run SCENARIO --help)."`
}

// Run runs a scenario. The flags of the job may stand before its name and after it.
func (c *Cmd) Run(streams cli.Streams, k *kong.Context) error {
	name := c.Scenario[0]
	if strings.HasPrefix(name, "-") && name != "-" {
		return fault.New(fault.Usage, "unknown flag %s", name).
			WithHint("options of a scenario stand after its name; perigee run --help")
	}
	before := k.Args[1 : len(k.Args)-len(c.Scenario)] // as kong has found them
	j := Job{Command: "perigee run " + name, Scenario: name, Process: k.Args}
	j.Words, j.Mistake = j.Flags.take(j.Command, slices.Concat(before, c.Scenario[1:]))
	return j.Run(context.Background(), streams)
}

// Shipped is a command that runs a shipped scenario, that of its tag scenario.
type Shipped struct {
	Words []string `arg:"" optional:"" name:"options" help:"Options of the job and of the scenario; --help lists them."`
}

// Job is the job that the command asks for.
func (c *Shipped) Job(k *kong.Context) Job {
	node := k.Selected()
	j := Job{Command: node.FullPath(), Scenario: node.Tag.Get("scenario"), Process: k.Args}
	j.Words, j.Mistake = j.Flags.take(j.Command, c.Words)
	return j
}

// Run runs the scenario.
func (c *Shipped) Run(streams cli.Streams, k *kong.Context) error {
	return c.Job(k).Run(context.Background(), streams)
}
