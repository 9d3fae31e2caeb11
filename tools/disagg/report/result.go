package report

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/slurm"
	"perigee/internal/result"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
)

// WriteResult writes a case as a perigee result: the figures of each level as
// metrics and as a table, the nodes it ran on, and the config it ran with,
// without secrets: people show each other results.
func WriteResult(path string, c *judge.Case, tree *conf.Value) error {
	levels := result.Table{Title: "Levels", Columns: []string{"concurrency", "metric", "value"}, Rows: [][]any{}}
	var metrics []result.Metric
	for _, l := range c.Levels {
		for _, name := range slices.Sorted(maps.Keys(l.Metrics)) {
			levels.Rows = append(levels.Rows, []any{l.Concurrency, name, l.Metrics[name]})
			def := result.MetricDef{Name: fmt.Sprintf("%s_c%d", name, l.Concurrency),
				Help:   fmt.Sprintf("%s at concurrency %d", name, l.Concurrency),
				Better: string(DirectionOf(name))}
			if slices.Contains(benchlog.All(), name) {
				def.Help += ", ms"
			}
			// The table has them all: also those of a level that was run twice.
			twice := slices.ContainsFunc(metrics, func(m result.Metric) bool { return m.Name == def.Name })
			if !twice && len(metrics) < result.MaxMetrics {
				metrics = append(metrics, result.Metric{MetricDef: def, Values: []float64{l.Metrics[name]},
					TimesNS: []int64{0}})
			}
		}
	}
	notes := []string{fmt.Sprintf("case %s of perigee disagg: %s", c.ID, c.State)}
	text, err := shownSource(tree)
	if err != nil { // the figures count without it, and later cases must run
		text = []byte("***\n")
		notes = append(notes, "warning: the configuration is left out: without its secrets it cannot be written: "+
			err.Error())
	}
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Perigee: c.Perigee, Started: c.Began, Finished: &c.Ended,
		Command: []string{"perigee", "disagg", "run", c.File},
		Scenario: result.Scenario{Name: "disagg", SHA256: fmt.Sprintf("%x", sha256.Sum256(text)), Source: string(text),
			Options: map[string]any{"id": c.ID}},
		World: world(c.Nodes), Phases: []result.Phase{}, Tables: []result.Table{levels}, Metrics: metrics,
		Values: map[string]any{"state": c.State, "reasons": c.Reasons, "job": c.Job, "nodes": c.Nodes,
			"queue_s": c.QueueS, "run_s": c.RunS, "probe": c.Probe},
		Notes: notes,
	}
	return d.Write(path)
}

// shownSource is a configuration as a result has it. That may be longer than what the case ran with: masks are longer
// than short values, and aliases repeat them.
func shownSource(tree *conf.Value) ([]byte, error) {
	masked, err := config.Masked(tree)
	if err != nil {
		return nil, err
	}
	return masked.YAML()
}

// world is the nodes of a job, from Slurm's list of them.
func world(nodes string) result.World {
	names, err := slurm.ExpandHosts(nodes)
	if nodes == "" || err != nil {
		names = []string{"unknown"}
	}
	w := result.World{Size: len(names), Launcher: "slurm"}
	for i, name := range names {
		// How many CPUs the job has there is not known here; Slurm gives at least one.
		w.Hosts = append(w.Hosts, result.Host{Name: name, Ranks: []int{i}, CPUs: 1})
		w.Clocks = append(w.Clocks, result.Clock{})
	}
	return w
}
