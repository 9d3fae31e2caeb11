package series

// Distribution sums up the measurements of one or more lanes over many runs: the span, and
// the duration of each stage of a run. Its size does not grow with the number of runs.
type Distribution struct {
	Start, End int64 // nanoseconds of one clock; 0 where nothing was posted
	Bytes      int64
	CPU        float64 // seconds

	Latency Samples // from before the first post until all is complete
	Prep    Samples // preparing the requests
	Post    Samples // from before the first post until after the last
	Tx      Samples // from after the last post until all is complete
}

func (r *Distribution) stages() []*Samples { return []*Samples{&r.Latency, &r.Prep, &r.Post, &r.Tx} }

// Add adds one run.
func (r *Distribution) Add(t Stamps) {
	if r.Start == 0 {
		r.Start = t.Start
	}
	r.End = max(r.End, t.End) // of runs that overlap, the last to start need not be the last to end
	r.Latency.Add(t.End - t.Start)
	r.Post.Add(t.Posted - t.Start)
	r.Tx.Add(t.End - t.Posted)
}

// Merge adds all of o, which was measured by the same clock.
func (r *Distribution) Merge(o *Distribution) {
	if r.Start == 0 || o.Start != 0 && o.Start < r.Start {
		r.Start = o.Start
	}
	r.End = max(r.End, o.End)
	r.Bytes += o.Bytes
	r.CPU += o.CPU
	theirs := o.stages()
	for i, s := range r.stages() {
		s.Merge(theirs[i])
	}
}
