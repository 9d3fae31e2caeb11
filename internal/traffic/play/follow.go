package play

import "errors"

// Pace is how a plan of a [load.Schedule] is followed.
type Pace struct {
	First, End int   // transfers of the schedule, End not included
	InFlight   int   // transfers of a rank under way at a time, first come first served; 0: no limit
	AtOnce     bool  // all transfers are due at Zero
	Zero       int64 // of the schedule, nanoseconds of the common time line; 0: when the first requests are prepared
}

// Timed is what became of a transfer at the rank that posts it, or posts its parts of it. Stamps are nanoseconds of the
// common time line.
type Timed struct {
	Transfer int
	Due      int64
	// Admitted is when it might be posted: Due, or with Pace.InFlight when one of those before it ended, if that was
	// later. Admitted - Due is its wait in the queue, and Posted - Admitted how late this rank posted it.
	Admitted int64
	Posted   int64 // before it was given to the engine
	End      int64 // when all of this rank's parts were seen complete
	Bytes    int64 // of this rank's parts
}

// Follow posts this rank's transfers of a schedule when they are due, whatever is under way then, and returns when all
// are complete. Nothing is sent between ranks but the transfers, so each rank calls it by itself; one that posts
// nothing returns at once. What is overdue is posted as soon as can be, completions being looked at in between: the
// schedule is never moved.
//
// The posting thread calls take from time to time with what is done since. take must be quick, and must not keep the
// slice. Meanwhile other goroutines may use the world, for collectives and to compare clocks, but not the session.
func (p *Plan) Follow(o Pace, take func([]Timed)) error { return errors.ErrUnsupported }

// VerifySchedule lets a plan of a [load.Schedule] move known bytes, as many transfers at a time as share no memory, and
// checks every byte that arrived, those beside them too. All ranks call it. Wrong bytes are an error as that of Verify.
func VerifySchedule(p *Plan) error { return errors.ErrUnsupported }
