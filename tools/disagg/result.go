package disagg

import (
	"perigee/internal/conf"
	"perigee/internal/result"
	"perigee/tools/disagg/batch"
)

// probeResult is what the probe of the fabric has measured.
type probeResult struct {
	Error string `json:"error,omitempty"`
}

func probeArguments(*batch.Task) (string, error) { return "", nil }

func readProbe(string) *probeResult { return nil }

// writeResult writes a case as a perigee result.
func writeResult(path string, c Case, tree *conf.Value) error {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Perigee: c.Perigee, Started: c.Began, Finished: &c.Ended,
		Command:  []string{"perigee", "disagg", "run", c.File},
		Scenario: result.Scenario{Name: "disagg", Options: map[string]any{"id": c.ID, "config": tree.Plain()}},
		Values:   map[string]any{"case": c},
	}
	for _, l := range c.Levels {
		for name, value := range l.Metrics {
			_ = name
			_ = value
		}
	}
	return d.Write(path)
}
