// Package play runs loads: Prepare makes a Plan of each, which every rank runs as often as it likes, verifies, and
// gathers the times of. Scenarios reach it through lua/modules/transfer, tools/simulate through a simulated engine.
//
// # Running
//
// A Plan (plan.go) has a part for each lane on which this rank posts something, with a batch that the engine has
// prepared. Run, and Post with Wait (run.go), keep the stamps of single runs; Measure keeps distributions, whose size
// does not grow with the number of runs (measure.go, with maker.go for requests that are prepared anew). Between ranks
// nothing is sent while a plan runs: the ranks met in a barrier before, or start at an instant that they have agreed
// on, and the stamps stay where they are until Collect.
//
// The parts of one run start together. The caller's own goroutine drives the first, unless it is one of files: a
// handover to another goroutine would be part of the measured time. The others have a goroutine each. Runs go to the
// engine's own loop in pieces. A piece is bounded by the memory for its stamps and, where there is a timeout, by the
// time that it takes: the timeout is meant for one run.
//
// # Following
//
// A plan of a load.Schedule has no parts: its transfers are due one by one, and Follow (follow.go) posts each at its
// time, whatever is under way. Requests are prepared while there is time, and used again where the same bytes go to the
// same places (requests.go). A post that is late stays late: the schedule has one zero on the common time line, and all
// stamps are on that line.
//
// # Verifying
//
// Fill writes known bytes where a plan sends from and their opposite where it receives, and Check compares every byte
// after the runs (verify.go); Verify does both around one run. Each byte is a hash of the seed, the plan, the message
// and the place (verify_stream.go), so a byte of another message, place or round is found. The bytes beside the
// messages are checked, too (verify_guard.go): an engine that writes a little too far harms what lies there. The error
// of a rank with wrong bytes has a *Corruption as its cause. Plans that share buffers overwrite each other; Apart
// makes copies of plans that do not. VerifySchedule verifies a schedule lap by lap.
//
// # Recording
//
// Collect and the function Measure (record.go) gather what was recorded at rank 0 and put it on the common time line,
// by the clocks that the world compares before and after. They are collectives: all ranks call them with the same
// plans, and only rank 0 gets anything.
//
// # Errors
//
// What a script did wrong, such as running a released plan, is of kind Script. What the engine reports keeps its kind,
// or becomes Engine; a timeout names the peer and its host (session.Explain). A rank that fails fails the world, so
// that the others end, too.
package play
