package wire

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stub is a link to an address that knows whether it was closed.
type stub struct {
	address string
	closed  *[]string
}

func (s stub) Close() error {
	*s.closed = append(*s.closed, s.address)
	return nil
}

// An address is written as what happens there, and after how long: open 10ms,
// shut 2s; a hole swallows everything.
func dialStub(closed *[]string) func(context.Context, string) (stub, error) {
	return func(ctx context.Context, address string) (stub, error) {
		what, after, _ := strings.Cut(address, " ")
		if what == "hole" {
			<-ctx.Done()
			return stub{}, context.Cause(ctx)
		}
		d, err := time.ParseDuration(after)
		if err != nil {
			return stub{}, err
		}
		time.Sleep(d) // a loser may come through although it was told to stop
		if what == "shut" {
			return stub{}, errors.New(address)
		}
		return stub{address, closed}, nil
	}
}

func TestRace(t *testing.T) {
	for _, test := range []struct {
		name      string
		addresses string
		want      string // the address that wins, or what is wrong
		after     time.Duration
		closed    string
	}{
		{"the first answers", "open 10ms,open 0s", "open 10ms", 10 * time.Millisecond, ""},
		{"the first refuses", "shut 5ms,open 10ms", "open 10ms", 15 * time.Millisecond, ""},
		{"the first swallows all", "hole,open 10ms", "open 10ms", headStart + 10*time.Millisecond, ""},
		{"three swallow all", "hole,hole,hole,open 10ms", "open 10ms", 3*headStart + 10*time.Millisecond, ""},
		{"the first is slow, and so is the second", "open 300ms,open 400ms", "open 300ms", headStart + 400*time.Millisecond, "open 400ms"},
		{"the second is quicker", "open 900ms,open 10ms", "open 10ms", 900 * time.Millisecond, "open 900ms"},
		{"all refuse", "shut 5ms,shut 6ms", "shut 5ms; shut 6ms", 11 * time.Millisecond, ""},
		{"time runs out", "hole,shut 5ms,hole", "shut 5ms; out of time; out of time", time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("out of time"))
				defer cancel()
				var closed []string
				began := time.Now()
				link, err := Race(ctx, strings.Split(test.addresses, ","), dialStub(&closed))
				got := link.address
				if err != nil {
					got = err.Error()
				}
				if got != test.want || time.Since(began) != test.after || strings.Join(closed, ",") != test.closed {
					t.Errorf("got %q after %v, closed %q; want %q after %v, closed %q", got, time.Since(began), closed, test.want, test.after, test.closed)
				}
			})
		})
	}
}
