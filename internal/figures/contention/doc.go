// Package contention says what it costs messages that others use the same
// sender, receiver or host at the same time.
//
// # Definition
//
// The slowdown of a message is its time / the median time of the same message
// when its pattern ran alone; if it never did, of its runs that did not overlap.
// Contention compares messages of the workload that met messages of other
// patterns (package overlap) with a control group: runs of
// the same messages in the same phase that did not. Where these are too few in a
// phase, the control group of the phase are the runs alone, and Estimate.Of says so.
// Messages that overlapped in all runs of a phase in which others did not, or in
// nearly all, are left out, and compared with the runs alone by themselves
// (Report.Lacking).
//
// The figure is the ratio of the two groups' geometric means of slowdowns, each
// message against itself, so that messages which are slower in the workload for
// other reasons, and overlap more often too, do not pass for contention. 1 means
// that overlapping costs nothing, 2 that it doubles the time.
//
// A message that lasts longer has more time to meet another: it met the other
// because it was slow, and not the other way round. So a message that met another
// after a time is compared with those of the control group that lasted longer than
// that, and one that had by then lasted as long as alone counts as one that did
// not meet any. Where the clocks of the hosts are too uncertain to say which of these
// a message is, it is in neither group.
//
// # Interval
//
// Messages of one run share their fate, so errors are summed up by run before they
// are squared (Liang and Zeger, Biometrika 73, 1986). The interval is the logarithm
// of the ratio plus and minus Student's t, with as many degrees of freedom as the
// smaller group has runs less one, times this standard error, widened by
// n / (n - 1) for small n. With fewer than MinRuns runs there is no interval, and
// nothing is shown.
//
// The interval misses the true ratio in 1 % of results. Pairs are compared in the same way, each at the level 1 % / the
// number of pairs that overlapped (Bonferroni), so that one of many is not named by chance.
//
// Estimate.Verdict says contention only if the interval lies above Little, and that it is small only if the interval
// lies below: of two repetitions hardly ever one says the one and the other the other.
//
// # Reading order
//
// contention.go has the types and the comparison, messages.go decides of each message whether it met another, fit.go
// the estimate and its interval, slower.go the patterns that were slower in the workload though nothing overlapped. A
// Collector takes the measurements of a result one by one and keeps sums instead of runs; its Report draws the
// conclusion. There are no errors: what cannot be shown has no interval.
package contention
