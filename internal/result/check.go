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
	for i, s := range d.Storage {
		if s.Pattern < 0 || s.Pattern >= len(d.Patterns) {
			return fmt.Errorf("storage[%d]: there is no pattern %d", i, s.Pattern)
		}
		if err := checkSpan(s.StartNS, s.EndNS, s.Bytes); err != nil {
			return fmt.Errorf("storage[%d]: %w", i, err)
		}
	}
	for i, l := range d.Lanes {
		if err := checkSpan(l.StartNS, l.EndNS, l.Bytes); err != nil {
			return fmt.Errorf("lanes[%d]: %w", i, err)
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

// checkRun makes sure that readers can follow the indexes of a run, and refuses times and bytes below zero: nothing
// measures them, so the file is damaged.
func (d *Document) checkRun(m *Measurement) error {
	switch {
	case m.Pattern < 0 || m.Pattern >= len(d.Patterns):
		return fmt.Errorf("there is no pattern %d", m.Pattern)
	case m.Iteration < 0:
		return fmt.Errorf("its iteration is %d, want 0 or more", m.Iteration)
	}
	if err := checkSpan(m.StartNS, m.EndNS, 0); err != nil {
		return err
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		if err := checkSpan(r.StartNS, r.EndNS, r.Bytes); err != nil {
			return fmt.Errorf("ranks[%d]: %w", i, err)
		}
		for k, p := range r.Peers {
			if err := checkSpan(r.StartNS, p.EndNS, p.Bytes); err != nil {
				return fmt.Errorf("ranks[%d].peers[%d]: %w", i, k, err)
			}
		}
	}
	return nil
}

// checkSpan refuses a time below zero, which one that 64 bits do not hold becomes, and bytes below zero.
func checkSpan(start, end, bytes int64) error {
	switch {
	case end < start || end-start < 0:
		return fmt.Errorf("end_ns - start_ns: wanted 0 or more, got %v", float64(end)-float64(start))
	case bytes < 0:
		return fmt.Errorf("bytes: wanted 0 or more, got %d", bytes)
	}
	return nil
}
