package sweep

import "perigee/internal/cli"

type PlotCmd struct{ Input }
func (c *PlotCmd) Run(s cli.Streams) error { return nil }
type ReportCmd struct{ Input }
func (c *ReportCmd) Run(s cli.Streams) error { return nil }
