// Package nixltest holds the test that every transfer engine has to pass, and helps to test what uses engines. The
// test proves the promises of package nixl with agents in one process, in separate ones, and some of both.
//
// A package with an engine calls Main from its TestMain and Run from a test. Run starts the test's own binary again as
// a worker for each agent that lives elsewhere, and Main turns such a process into one; orders and answers travel over
// pipes (server.go, worker.go), so that one body of a test serves agents here and there (cluster.go, engine.go).
//
// suite.go lists the subtests and is the place to begin. files.go, peers.go and lives.go have those of files, of peers
// that come, go and die, and of agents that are opened and closed many times, where a leak of memory, descriptors or
// threads shows. Setup says what an engine does not have, such as other memory than the host's. Bench times what
// package nixl says is cheap.
package nixltest
