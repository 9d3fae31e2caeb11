// Package boot turns the environment of a process into a rank: which rank it is, how many
// there are, and how it reaches the others.
//
//	environment --find--> launcher --Join--> Process
//	                                          |-- rank, size, secret, addresses
//	                                          |-- Store    cards of all ranks
//	                                          `-- Monitor  failures (package watch)
//
// Each launcher that perigee understands is one file with one function that looks at
// the environment and says: not mine, mine, or mine but broken. [Started] and [Join] ask them
// in order.
//
// # How ranks meet
//
// Under perigee's own launcher ("local") every rank inherits a connection to the
// launcher, which runs the coordinator. Under all others rank 0 runs it, and listens for the
// rest; the type rendezvous is that protocol. What differs is how the others learn the
// address and the secret:
//
//	pmix, pmi2, pmi1   The launcher has a key-value store. Rank 0 puts an offer there: its
//	                   addresses and a secret that it has made, or why it has failed. All
//	                   ranks fence. The others get the offer, and all leave the store,
//	                   since launchers mind how a process ends that is still in it.
//	slurm              There is no store. The node of rank 0 is the first of the step's
//	                   list, the port follows from the job and the step, and the secret
//	                   is sent to every process that connects, in a munge credential,
//	                   which only the same user can decode.
//	etcd               Who starts the ranks gives no numbers. Each takes one at an etcd, and rank
//	                   0 leaves its addresses and a secret there.
//	torchrun           MASTER_ADDR and MASTER_PORT say where. The secret is PERIGEE_SECRET;
//	                   on one host rank 0 makes one, which only the same user can read.
//
// A rank tries all addresses of rank 0 at a time ("probe") until one of them proves that it
// knows the secret. It does not give up before the context ends, since rank 0 may start later. When
// all ranks have come rank 0 stops listening.
//
// # Death of the launcher
//
// Each rank watches the process of its launcher, first while the ranks meet, then for the
// Monitor (launcher.go). See docs/launchers.md for what is watched under which launcher, and for
// PERIGEE_NO_WATCH.
package boot
