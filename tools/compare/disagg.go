package compare

import (
	"fmt"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/serving/given"
	"perigee/tools/disagg"
)

// disagg compares outputs of perigee disagg with the command for that, which gets the same words.
func (c *Cmd) disagg(s cli.Streams) error {
	for _, o := range []struct {
		flag    string
		useless bool
	}{
		{"--old and --new", len(c.MoreOld)+len(c.MoreNew) > 0}, {"--junit", c.JUnit != ""}, {"--force", c.Force},
		{"--metric and --pairs", c.Metric != "latency_ms" || c.Pairs != "auto"},
		{"--columns and --sort", c.Columns != nil || c.Sort != ""}, {"--output", c.Page != "" && c.Page != "-"},
	} {
		if o.useless {
			return fault.New(fault.Usage, "%s: no effect, since %s holds %s", o.flag, c.Old, given.Disagg).
				WithHint("perigee disagg compare --help has what can be asked for")
		}
	}
	format := map[string]string{"auto": "text"}[c.Format]
	if format == "" {
		format = c.Format
	}
	run := &disagg.CompareCmd{}
	k, err := cli.Parser(run, kong.NoDefaultHelp())
	if err == nil {
		_, err = k.Parse([]string{"--format=" + format, "--fail-on=" + c.FailOn, fmt.Sprintf("--alpha=%g", c.Alpha),
			"--", c.Old, c.New})
	}
	if err != nil {
		return fault.New(fault.Usage, "%w", err)
	}
	return run.Run(s)
}
