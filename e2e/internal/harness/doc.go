// Package harness holds the parts that the end-to-end tests share: it builds perigee, starts it alone or under a
// launcher, watches its processes, and finds out what they leave behind.
//
// A test package calls [Main] from its TestMain. All that its tests start carries the package's [Token] in its
// environment, and is killed when the tests end, in whatever way they end: a guard (guard.go), which is the test
// program once more, waits for the end of its input and then cleans up.
//
// process.go starts commands and waits for their output and end; after each, litter.go looks for shared memory and
// files that are left, and results.go checks every result that has appeared against the schema. load.go measures times
// by how much others want the processors, so that limits hold on a loaded machine, too. slurm.go runs a private Slurm
// cluster of several nodes on this machine, netns.go makes hosts of network namespaces, terminal.go gives a command a
// terminal.
//
// What a test needs and does not find, such as NIXL's library or a launcher, fails it with the package to install: a
// test that skips itself would be green for years.
package harness
