// Package capi is the transfer engine that drives NVIDIA's NIXL library with its UCX backend, or with another plugin
// that the user chooses. The library is loaded when the program runs (see Find); the program builds and starts without
// it.
//
// # Who makes progress
//
// UCX works only while it is called. With a progress thread the library calls itself; without one
// the ranks have to, which takes less time per transfer. On one host UCX
// moves bytes by cross-memory attach: the initiator alone does everything, so no
// thread is needed once a connection is made, and a target may sleep. That holds
// with UCX's error handling switched off; with it on, every completion takes a
// message from the target. A peer's death is noticed all the same: the
// copy fails, and the kernel reports the exit. GPU memory takes the thread: between it and the memory of the host, and
// where UCX may not read a peer's GPU, bytes move with the target's help, and a target that sleeps would be waited for
// without end. Between hosts the thread is the default, too, with error handling on. It sleeps until there is
// something to do: one that polls all the time halves the bandwidth of ranks that share its cores, and gains some
// microseconds per message over TCP only.
//
// Connections are made ahead of the first transfer by two rounds of notifications: an agent that is
// to connect sends a hello, and answers each hello that it gets. An agent that got an answer and has
// answered knows that messages arrive in both directions.
//
// # The library's environment
//
// The following are set before it is loaded, unless the user has set them:
//
//	NIXL_LOG_LEVEL=FATAL                        errors are reported by perigee; set it and UCX_LOG_LEVEL
//	                                            to info to see the library's own account
//	UCX_LOG_LEVEL=info, UCX_PROTO_INFO=used,    UCX writes into memory what moved the bytes, see path.go;
//	UCX_LOG_FILE=/proc/self/fd/N                with any UCX_LOG_* or UCX_PROTO_INFO* of the user's
//	                                            UCX_LOG_LEVEL=fatal alone
//	UCX_POSIX_SHM_MIN_SIZE=1                    UCX looks at the space in /dev/shm twice, and
//	                                            crashes where another rank has taken it meanwhile;
//	                                            perigee looks itself (see Tight)
//	UCX_VFS_ENABLE=n                            no thread that serves a daemon's requests
//	UCX_MEM_MMAP_HOOK_MODE=none                 no patching of libc's mmap: Go's calls do
//	                                            not go through it, and it takes 0.4 s
//	UCX_HANDLE_ERRORS=none, UCX_DEBUG_SIGNO=0   signals are Go's
//	UCX_TCP_USER_TIMEOUT=6s, UCX_TCP_KEEPIDLE=2s, UCX_TCP_KEEPINTVL=1s, UCX_TCP_KEEPCNT=4
//	                                            a host that is cut off is noticed within seconds,
//	                                            as on perigee's own links; not where UCX_TLS leaves
//	                                            out tcp, as UCX warns of variables that nothing reads
//
// # Who may come in
//
// UCX's listeners let everybody in who reaches them, and write where they are told to. On one host ranks
// share memory, and UCX opens none: its transport tcp is switched off (UCX_TLS=^sysv,tcp), unless the user has set
// UCX_TLS or UCX_NET_DEVICES. Where /dev/shm has no room for the segments it has tcp instead, at the loopback
// interface, and needs the progress thread. Its System V segments have mode 0660, open to the user's group, so sysv is
// switched off everywhere. UCX_TLS is set again for each agent, since a process may have agents of several kinds.
//
// # Leaving
//
// The library's destructors crash when a process that used it calls C's exit. Go's own exit does not call
// it, but the race detector does; so perigee has C's exit end the process before it comes to them. Close the agents
// before leaving all the same: it notifies the peers.
//
// # Reading order
//
// find.go finds the library and engine.go loads it: papi.c looks up its functions, so that nothing is linked. agent.go,
// buffer.go and card.go are an agent's memory and its peers, connect.go the connections, batch.go and list.go prepared
// transfers. plugin.go checks the plugin that the user chooses, object.go has blocks in object stores. loop.c posts,
// polls and stamps: a call from Go to C for each poll would be part of the measured time. notice.go has messages,
// file.go files, room.go and sweep.go look after /dev/shm, path.go and ucxlog.go read UCX's account of what
// moved the bytes, crash.c keeps C's exit from the library's destructors.
// nocgo.go stands in for all of it in a build without cgo.
package capi
