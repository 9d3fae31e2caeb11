package result

import (
	"errors"
	"fmt"
)

// check makes sure that readers can follow every index but those of measurements.
func (d *Document) check() error {
	if d.World.Size < 1 || d.Status == "" {
		return errors.New("it lacks the world or the status of a run")
	}
	for i, p := range d.Patterns {
		if p.Matrix < 0 || p.Matrix >= len(d.Matrices) {
			return fmt.Errorf("patterns[%d]: there is no matrix %d", i, p.Matrix)
		}
	}
	for i, t := range d.Totals {
		if t == nil {
			return fmt.Errorf("totals[%d]: it is null", i)
		}
		if err := t.check(len(d.Patterns)); err != nil {
			return fmt.Errorf("totals[%d]: %w", i, err)
		}
	}
	for i, s := range d.Storage {
		if err := d.checkRun(s.Pattern, s.Iteration); err != nil {
			return fmt.Errorf("storage[%d]: %w", i, err)
		}
	}
	for i, in := range d.Inputs {
		if in.Matrix != nil && (*in.Matrix < 0 || *in.Matrix >= len(d.Matrices)) {
			return fmt.Errorf("inputs[%d]: there is no matrix %d", i, *in.Matrix)
		}
	}
	for i := range d.Metrics {
		if err := d.Metrics[i].check(); err != nil {
			return fmt.Errorf("metrics[%d]: %w", i, err)
		}
	}
	for i, t := range d.Tables {
		for k, row := range t.Rows {
			if len(row) != len(t.Columns) {
				return fmt.Errorf("tables[%d]: row %d has %d cells for %d columns", i, k, len(row), len(t.Columns))
			}
		}
	}
	for i, w := range d.windows() {
		if w.Host < 0 || w.Host >= len(d.World.Hosts) {
			return fmt.Errorf("network.windows[%d]: there is no host %d", i, w.Host)
		}
	}
	if err := d.Replay.check(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// windows are those of the network, if it was looked at.
func (d *Document) windows() []NetworkWindow {
	if d.Network == nil {
		return nil
	}
	return d.Network.Windows
}

// checkRun makes sure that there is the pattern of a run, and that its iteration can be an index.
func (d *Document) checkRun(pattern, iteration int) error {
	if pattern < 0 || pattern >= len(d.Patterns) {
		return fmt.Errorf("there is no pattern %d", pattern)
	}
	if iteration < 0 {
		return fmt.Errorf("its iteration is %d, want 0 or more", iteration)
	}
	return nil
}

// check makes sure that every sample has a time, and that its labels are there.
func (m *Metric) check() error {
	if len(m.Values) != len(m.TimesNS) {
		return fmt.Errorf("%d values, but %d times", len(m.Values), len(m.TimesNS))
	}
	if m.Labels != nil && len(m.Labels) != len(m.Values) {
		return fmt.Errorf("%d values, but %d labels", len(m.Values), len(m.Labels))
	}
	for i, set := range m.Labels {
		if set < -1 || set >= len(m.LabelSets) {
			return fmt.Errorf("labels[%d]: there is no label_sets[%d]", i, set)
		}
	}
	return nil
}
