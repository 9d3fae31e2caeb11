package ep

import (
	"os"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// Cmd is `perigee ep`.
type Cmd struct {
	Routing   RoutingCmd   `cmd:"" help:"Count what a routing would move: assignments, copies, loads, bytes."`
	Placement PlacementCmd `cmd:"" help:"Place experts and replicas of them onto GPUs by their loads."`
	DataPlane playCmd      `cmd:"" passthrough:"" scenario:"ep_data_plane" name:"data-plane" help:"Measure dispatch and combine between ranks."`
	Control   playCmd      `cmd:"" passthrough:"" scenario:"ep_control_plane" name:"control-plane" help:"Measure how ranks connect, disconnect and reconnect."`
	Elastic   playCmd      `cmd:"" passthrough:"" scenario:"ep_elastic" name:"elastic" help:"Let ranks join, leave and die, and check and time the others."`
	Matrix    MatrixCmd    `cmd:"" help:"Print a traffic matrix that grows with the distance of ranks."`
}

// Help adds to the commands in perigee ep --help.
func (Cmd) Help() string { return "See docs/ep.md." }

// open opens a file that the user named.
func open(name string) (*os.File, error) {
	f, err := file.Open(name)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	return f, nil
}
