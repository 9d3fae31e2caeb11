package boot

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// Debian gives a host's own name an address of the loopback interface. Only if Slurm itself
// says that the nodes are there do the ranks meet where no other host can.
func TestWhereTheRanksOfAStepMeet(t *testing.T) {
	dir := t.TempDir()
	scontrol := "#!/bin/sh\n[ $4 = n..1 ] && echo NodeName=$4 NodeAddr=127.0.1.1 State=IDLE || echo NodeAddr=203.0.113.8\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "scontrol"), []byte(scontrol), 0o700))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	for _, c := range []struct {
		nodes string // with two dots, names that no resolver knows
		host  string // to which the ranks confine themselves
		meet  string
	}{
		{"127.0.1.1,203.0.113.9", "", "127.0.1.1"}, // as the resolver of rank 0's host has it
		{"203.0.113.8,127.0.1.1", "", "203.0.113.8"},
		{"n..1,n..2", "127.0.1.1", "127.0.1.1"},
		{"n..2,n..1", "", "203.0.113.8"},
	} {
		for _, rank := range []string{"0", "1", "3"} {
			env := vars(slurmEnv + EnvSecret + "=0123456789abcdef SLURM_STEP_NODELIST=" + c.nodes)
			env["SLURM_PROCID"] = rank
			delete(env, "SLURMD_NODENAME")
			s, err := readSlurm(environ(env))
			must.Do(t, err)
			r, err := s.rendezvous(t.Context())
			must.Do(t, err)
			listen, _, _ := net.SplitHostPort(r.listen[0])
			meet, _, _ := net.SplitHostPort(r.meet[0])
			if r.host != c.host || listen != c.host || meet != c.meet {
				t.Errorf("rank %s of %s: confined to %q, listens at %q, looks at %q; want %+v", rank, c.nodes, r.host, listen, meet, c)
			}
		}
	}
}

// A signal while a rank of plain Slurm asks a program of Slurm or munge, which then hangs, is a signal, and no failure of
// that program.
func TestInterruptedWhileSlurmAnswers(t *testing.T) {
	for _, c := range []struct{ program, rank, env, want string }{
		{"scontrol", "0", EnvSecret + "=0123456789abcdef", "rank 0 looked for the address of node n..1: ended by signal: terminated"},
		{"munge", "0", "", "munge has not answered: ended by signal: terminated"},
		{"munge", "1", "", "munge has not answered: ended by signal: terminated"},
	} {
		dir := t.TempDir()
		asked := filepath.Join(dir, "asked")
		for _, name := range []string{"scontrol", "munge", "unmunge"} {
			script := "#!/bin/sh\n[ ${0##*/} = " + c.program + " ] && { : > " + asked + "; exec sleep 60; }\necho NodeAddr=127.0.1.1\n"
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
		}
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		env := vars(slurmEnv + c.env + " SLURM_STEP_NODELIST=n..1,n..2") // names that no resolver knows
		env["SLURM_PROCID"] = c.rank
		delete(env, "SLURMD_NODENAME")
		s, err := readSlurm(environ(env))
		must.Do(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.join(ctx, Watcher{})
			ended <- err
		}()
		spmdtest.Wait(t, func() bool { _, err := os.Stat(asked); return err == nil })
		cancel(fault.New(fault.Interrupt, "ended by signal: terminated"))
		must.Fail(t, <-ended, fault.Interrupt, c.want)
	}
}

// So it is where munge hangs while a rank reads the credential of rank 0.
func TestInterruptedWhileMungeDecodes(t *testing.T) {
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	for _, name := range []string{"munge", "unmunge"} {
		script := "#!/bin/sh\n: > " + asked + "\nexec sleep 60\n"
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	m, err := findMunge(environ(nil), "7.0")
	must.Do(t, err)
	signalled, signal := context.WithCancelCause(t.Context())
	ctx, cancel := context.WithTimeout(signalled, probeLimit) // as a rank that probes
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := m.open(ctx, []byte("MUNGE:"))
		ended <- err
	}()
	spmdtest.Wait(t, func() bool { _, err := os.Stat(asked); return err == nil })
	signal(fault.New(fault.Interrupt, "ended by signal: terminated"))
	if err := <-ended; fault.KindOf(err) != fault.Interrupt {
		t.Errorf("got %v", err)
	}
}
