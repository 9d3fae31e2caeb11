// Package watch decides whether a job is alive, and if it is not, which rank is the cause.
//
// One process of the job, the launcher or rank 0, runs a [Coordinator]. Every rank keeps
// one connection to it, the end of which is a [Client]. Messages are lines of JSON. A
// connection is authenticated before this package gets it (package wire), or
// inherited from the launcher.
//
// # The start
//
// The coordinator sends "secret", the job's secret for the links between ranks, or nothing
// in it where ranks know it already. The rank answers with
//
//	hello   the size of the world, its host, and its card: an opaque
//	        description by which other ranks can reach it
//
// A rank that cannot take part sends "abort" instead, so that the others need not wait for
// it. When the last hello has come the coordinator sends "ready" to all. From then on a rank asks for the card of
// another with "get", and the answer is "card".
//
//	rank                      coordinator
//	  |  <------- secret --------  |
//	  |  -------- hello -------->  |   waits for all
//	  |  <------- ready ---------  |
//	  |  --------- get --------->  |
//	  |  <-------- card ---------  |
//	  |  -------- phase -------->  |   whenever the rank begins something else
//	  |  <------- noted ---------  |   to some of these, where they are many
//	  |  -------- leave -------->  |   hangs up
//	  |                            |
//
// # The end
//
// A rank that is done sends "leave"; then the coordinator hangs up. The end of a connection
// without "leave" is the death of the rank. The launcher then says how the process ended; rank
// 0, as coordinator, only knows that it is gone. Its last "phase" says what it was doing.
//
// # Failures
//
// The first failure of a job counts, and all later ones are taken for its consequences. A
// rank reports its own failure with "abort". It then waits for the coordinator's verdict,
// an "abort" with the failure of the job, which may be another one. The order matters:
//
//  1. The user reads it (Announce). Launchers that see one rank end kill the others, and
//     may lose what they write.
//  2. All ranks hear it by "abort".
//  3. Where rank 0 coordinates, it leaves first, and the others follow. If some have not come yet it stays for a few
//     seconds, so that they hear of the failure, too ([LeadingClient.AwaitLate]).
//
// # Probing
//
// A timeout, a lost link or an error of the transfer engine can come from the
// failure of another rank ([MayBeEcho]): a barrier only counts, and where a network fails
// connections end one after the other. So before such a failure becomes the job's the
// coordinator sends "probe" to all ranks. A rank answers "alive" from its own goroutine,
// also while it computes or waits. Ranks that do not answer within a second are
// stopped, cut off or dead, and they are the cause, not the rank that reported. While several
// are silent they get a second round, since on a host with more ranks than cores some may only be
// slow. If all answer the reporting rank itself is the cause.
//
// Seconds are counted in ticks of this process. A coordinator that was itself stopped must not
// hold that time against others.
//
// A rank that knows the cause sends "cause": that rank 0 did not answer its own "abort" (rank 0
// may have been stopped and go on now), or that the launcher's process has died ([Client.Heed]).
// It is believed without probing.
package watch
