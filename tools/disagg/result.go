package disagg

import (
	"fmt"
	"maps"
	"slices"

	"perigee/internal/conf"
	"perigee/internal/result"
)

// writeResult writes a case as a perigee result: the figures of each level as a
// table and as values, and the config it ran with.
func writeResult(path string, c Case, tree *conf.Value) error {
	levels := result.Table{Title: "Levels", Columns: []string{"concurrency", "metric", "value_ms"}, Rows: [][]any{}}
	for _, l := range c.Levels {
		for _, name := range slices.Sorted(maps.Keys(l.Metrics)) {
			levels.Rows = append(levels.Rows, []any{l.Concurrency, name, l.Metrics[name]})
		}
	}
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Perigee: c.Perigee, Started: c.Began, Finished: &c.Ended,
		Command:  []string{"perigee", "disagg", "run", c.File},
		Scenario: result.Scenario{Name: "disagg", Options: map[string]any{"id": c.ID, "config": tree.Plain()}},
		Phases:   []result.Phase{}, Tables: []result.Table{levels},
		Values: map[string]any{"state": c.State, "reasons": c.Reasons, "job": c.Job, "nodes": c.Nodes, "queue_s": c.QueueS, "run_s": c.RunS, "probe": c.Probe},
		Notes:  []string{fmt.Sprintf("case %s of perigee disagg: %s", c.ID, c.State)},
	}
	return d.Write(path)
}
