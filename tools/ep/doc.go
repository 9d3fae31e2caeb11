// Package ep is `perigee ep`: expert-parallel traffic. It shows what a routing moves and where a placement puts
// experts without moving a byte, and runs the tests of the data plane and the control plane. See docs/ep.md.
//
// routing.go and placement.go compute with package moe and print tables, JSON or a traffic matrix; their options are
// those of the scenarios, so that they show the bytes of a run before it. play.go runs the shipped scenarios through
// package run, with the flags of the original NIXL EP tests under their names.
//
// Those tests are started once per node, as torchrun is, with WORLD_SIZE and RANK for nodes; perigee's jobs are
// started once per rank. nodes.go joins the two: it finds out whether this process stands for a node or for a rank,
// starts the ranks of a node with torchrun's variables, labels their output and waits for them. Where Slurm's
// variables allow both readings it refuses, with the lines to start either: a job of another size than meant would
// measure something else.
//
// Byte counts come on several bases, and every table names which (moe.Bytes).
package ep
