package spmd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/spmdtest"
)

// Where rank 0 fails before the others have come they hear why, and do not look for it until they give up.
func TestRankZeroFailsBeforeTheOthersCome(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, c := range []struct {
		name, iface string
		spoil       func(p *boot.Process)
		want        string
	}{
		{"it cannot open its links", "", func(p *boot.Process) { p.Listen = "127.0.0.1:none" }, "listen for other ranks on 127.0.0.1:none"},
		{"it has no such network", "none0", func(*boot.Process) {}, "none0 on "},
	} {
		t.Run(c.name, func(t *testing.T) {
			envs := torch(t, 3)
			ctx, cancel := patient(t)
			defer cancel()
			envs[0][boot.EnvIface] = c.iface
			failed := make(chan struct{})
			errs := make([]error, len(envs))
			var wg sync.WaitGroup
			wg.Go(func() {
				env := func(k string) (string, bool) { v, ok := envs[0][k]; return v, ok }
				told := sync.OnceFunc(func() { close(failed) })
				defer told()
				p, err := boot.Join(ctx, env, boot.Watcher{Failed: func(watch.Failure) { told() }})
				if err == nil {
					c.spoil(p)
					_, err = Join(ctx, p, Options{})
				}
				errs[0] = err
			})
			<-failed
			for r := 1; r < len(envs); r++ {
				wg.Go(func() { _, errs[r] = enter(ctx, envs[r], Options{}) })
			}
			wg.Wait()
			for r, err := range errs {
				f, ok := errors.AsType[watch.Failure](err)
				if !ok || f.Rank != 0 || f.Phase != "start" || f.Kind != fault.Launch || !strings.Contains(f.Cause, c.want) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}

// A signal to rank 0 before the others have come is no reason to leave before they know of it.
func TestRankZeroIsInterruptedBeforeTheOthersCome(t *testing.T) {
	defer goleak.VerifyNone(t)
	envs := torch(t, 3)
	ctx, cancel := patient(t)
	defer cancel()
	signalled, signal := context.WithCancelCause(ctx)
	failed := make(chan struct{})
	errs := make([]error, len(envs))
	var wg sync.WaitGroup
	wg.Go(func() {
		log := spmdtest.Cues{
			"rank joined":                func() { signal(fault.New(fault.Interrupt, "ended by signal: terminated")) },
			"sending the failure to all": func() { close(failed) },
		}.Logger()
		_, errs[0] = enter(signalled, envs[0], Options{Log: log})
	})
	<-failed
	time.Sleep(500 * time.Millisecond) // in which rank 0 would have left
	for r := 1; r < len(envs); r++ {
		wg.Go(func() { _, errs[r] = enter(ctx, envs[r], Options{}) })
	}
	wg.Wait()
	for r, err := range errs {
		f, ok := errors.AsType[watch.Failure](err)
		if !ok || f.Rank != 0 || f.Kind != fault.Interrupt || !strings.Contains(f.Cause, "ended by signal: terminated") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
