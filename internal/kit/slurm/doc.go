// Package slurm reads what Slurm prints and puts into the environment: host lists, task counts, the records of
// scontrol, and slurm.conf (conf.go). It knows nothing of ranks: spmd/boot makes a roster of hosts out of it,
// tools/disagg a queue of jobs, and tools/doctor advice. The forms are those of Slurm 20 to 25; "scontrol show
// hostnames" expands the same host lists (hostlist.go).
//
// A Queue (queue.go) submits, watches and cancels batch jobs through sbatch, squeue, sacct and scancel, not through
// Slurm's library or its REST service: the commands are there wherever a user can submit a job, and bring the site's
// own authentication. It asks for all jobs in one command, since a controller that serves thousands of users is easily
// overrun, and for the accounting only where squeue no longer knows a job.
//
// What a command complains of becomes part of the error. A job that squeue and sacct do not know is absent from the
// answer, and not an error: both forget, and the accounting is late. Lists that would stand for more than MaxHosts
// names are refused before they are expanded.
package slurm
