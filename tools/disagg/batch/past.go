package batch

import (
	"context"
	"time"
)

// past asks what Slurm has done to a job in a moment that no poll has seen, and reports whether it is preempting it.
// While Slurm does not answer, not every job is asked about: that may take long, and fails no case.
func (m *Manager) past(ctx context.Context, t *Task) bool {
	if t.Lost || !t.tied || time.Now().Before(m.deaf) {
		return false
	}
	past, err := m.Queue.Past(ctx, t.Job.ID)
	if err != nil {
		m.deaf = time.Now().Add(m.Poll)
		return false
	}
	t.Suspended = t.Suspended || past.Suspended
	t.Preempted = past.Preempted
	return past.Preempted
}
