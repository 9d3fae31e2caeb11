// Package experiment keeps the document of a run. At rank 0 it begins the result, takes notes, judges thresholds,
// saves what is there from time to time, and completes the result in the end; at every rank it opens the engine.
// Scenarios (package lua) and commands in Go use it alike:
//
//	e := experiment.Begin(config) // every rank
//	s, err := e.Session()         // engine and memory, when the first transfer is prepared
//	...                           // prepare and run plans
//	all, err := e.Collect(plans)  // recorded runs, into e.Doc at rank 0
//	err = e.Finish()              // or e.Save(failure)
//	err = e.Violated()
//
// Begin with experiment.go, which has Config, Begin, Finish and Save. Most methods are collectives, since rank 0 alone
// cannot know what the others hold: engine.go lets all ranks agree on one engine, session.go opens it at the first use
// and chooses between host and GPU memory, collect.go brings recorded runs to rank 0, hardware.go and machine.go
// describe the hosts. The rest works at rank 0 only: limits.go judges thresholds, convert.go fills types of package
// result, crowd.go notes what ranks have to share, gpus.go says which GPU and NICs each rank has.
//
// # Saving
//
// A run can be killed at any moment, so that the file holds what is known so far, marked partial, until Finish. Rank 0
// writes it, and cannot take part in transfers meanwhile. So a checkpoint waits until the time since the last one is
// ten times what that took, fifty times between measurements that come often; what remains unsaved is saved while the
// scenario waits for others (checkpoint.go). Two jobs that write to one file must not overwrite each other in silence:
// the later one takes a name beside it and says so (claim.go).
//
// # Memory
//
// Recorded runs stay in memory, at the ranks until they are collected and at rank 0 until the end. What they take
// follows from the load and the number of runs, so that Expect and Recording refuse before the first run what would
// not fit in the end (kept.go); that is an error of the kind Resource. A scenario that only wants distributions
// measures with play.Measure.
package experiment
