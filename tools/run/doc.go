// Package run is `perigee run`: it runs a scenario, as the launcher, which starts the ranks and watches them, or as
// one of the ranks. Other commands that run scenarios (ep, kvbench, rerun, and the shipped benchmarks, which are
// Shipped) make a [Job] and call its Run.
//
// # From a command line to a job
//
// A command line is read in two steps, since a scenario declares its own options: first the flags of every job, which
// decide how the ranks find each other; then, where the scenario is known, its options. Yielding flags of the job are
// read in between, unless the scenario has options of their names. All are values from then on. Only for child
// processes are they turned into words again, by [cli.Words] and optionWords, which are the inverse of the two steps.
//
// run.go has Job and the two lives of the program: without a launcher's variables it starts the ranks (launch), with
// them it is one (rank.go). flags.go has the options of every job, script.go reads a scenario and its own options,
// repeat.go takes both from a result that is to be repeated. Rank 0 alone reads the scenario and its files and sends
// them to the others, as they need not be on other hosts.
//
// # How a job ends
//
// All ranks exit with the code of rank 0's verdict, so that mpirun and srun report one failure and not several. A
// failure is printed once: by perigee's launcher, or else by rank 0, or by a rank that has noticed it without rank 0
// (reporter.go). Output that has no reader any more ends the job. A signal or the death of the launcher becomes a
// failure of the job, and a rank that does not end by itself, in an endless loop of the script say, is ended. A rank
// that is writing the result gets more time for that.
//
// memory.go ends a job whose script fills the memory, before the kernel kills some process of it. log.go lets each
// process write down what it does and why, and logging.go starts that; log lines are the only trace of ranks that were
// killed.
//
// What the user did wrong is of kind Usage, Input or Script, ranks that do not find each other of kind Launch, and
// thresholds that do not hold of kind Threshold; a violated threshold leaves a complete result all the same.
package run
