package wire

import (
	"context"
	"io"
	"strings"
	"time"
)

// headStart is how long an address is tried before the next is tried too, as
// RFC 8305 has it for hosts with several addresses.
const headStart = 200 * time.Millisecond

// attempts are what went wrong at all addresses.
type attempts []error

func (a attempts) Error() string {
	var b strings.Builder
	for i, err := range a {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

func (a attempts) Unwrap() []error { return a }

// Race dials addresses, each when the one before it has failed or has had its
// head start, and returns the first link that stands. The others are closed. If
// none stands the error has what is wrong with each. There must be an address.
func Race[L io.Closer](ctx context.Context, addresses []string, dial func(ctx context.Context, address string) (L,
	error)) (L, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		link L
		err  error
	}
	var won answer
	var errs attempts
	standing := false
	answers := make(chan answer)
	untried, waiting := addresses, 0
	for {
		var patience <-chan time.Time
		if len(untried) > 0 && !standing {
			address := untried[0]
			untried, waiting = untried[1:], waiting+1
			go func() {
				link, err := dial(ctx, address)
				answers <- answer{link, err}
			}()
			patience = time.After(headStart)
		}
		if waiting == 0 {
			break
		}
		select {
		case a := <-answers:
			waiting--
			switch {
			case a.err != nil:
				errs = append(errs, a.err)
			case !standing:
				won, standing = a, true
				cancel() // the other attempts end
			default:
				a.link.Close() // the same door, through another address
			}
		case <-patience:
		}
	}
	if !standing {
		return won.link, errs
	}
	return won.link, nil
}
