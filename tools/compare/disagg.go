package compare

import (
	"fmt"

	"perigee/internal/kit/cli"
	"perigee/internal/serving/given"
	"perigee/tools/disagg"
)

// disagg compares outputs of perigee disagg with the command for that, which gets the same words.
func (c *Cmd) disagg(s cli.Streams) error {
	err := given.Disagg.Refuse(c.Old, given.Useless("--old", len(c.MoreOld) > 0),
		given.Useless("--new", len(c.MoreNew) > 0), given.Useless("--junit", c.JUnit != ""),
		given.Useless("--force", c.Force),
		given.Useless("--metric", c.Metric != "latency_ms"), given.Useless("--pairs", c.Pairs != "auto"),
		given.Useless("--columns", c.Columns != nil), given.Useless("--sort", c.Sort != ""),
		given.Useless("--output", c.Page != "" && c.Page != "-"))
	if err != nil {
		return err
	}
	format := map[string]string{"auto": "text"}[c.Format]
	if format == "" {
		format = c.Format
	}
	run := &disagg.CompareCmd{}
	err = cli.Into(run, "--format="+format, "--fail-on="+c.FailOn, fmt.Sprintf("--alpha=%g", c.Alpha), "--", c.Old,
		c.New)
	if err != nil {
		return err
	}
	return run.Run(s)
}
