// Package slurm reads what Slurm prints and puts into the environment: host
// lists, task counts, the records of scontrol, and slurm.conf. It knows nothing of ranks.
//
// The forms are those of Slurm 20 to 25; "scontrol show hostnames" expands the
// same host lists.
//
// A [Queue] submits, watches and cancels batch jobs.
package slurm
