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

// attempts holds the failures at all addresses.
type attempts []error

func (a attempts) Error() string {
	texts := make([]string, len(a))
	for i, err := range a {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (a attempts) Unwrap() []error { return a }

// Race dials addresses, each when the one before it has failed or has had its
// head start, and returns the first link that stands. The others are closed. If
// none stands the error has what is wrong with each. There must be an address.
func Race[L io.Closer](
	ctx context.Context, addresses []string, dial func(ctx context.Context, address string) (L, error),
) (first L, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		link L
		err  error
	}
	answers := make(chan answer)
	var errs attempts
	won := false
	for waiting := 0; waiting > 0 || len(addresses) > 0 && !won; {
		var patience <-chan time.Time
		if len(addresses) > 0 && !won {
			address := addresses[0]
			addresses, waiting = addresses[1:], waiting+1
			go func() {
				link, err := dial(ctx, address)
				answers <- answer{link, err}
			}()
			patience = time.After(headStart)
		}
		select {
		case a := <-answers:
			waiting--
			switch {
			case a.err != nil:
				errs = append(errs, a.err)
			case won:
				a.link.Close() // the same door, through another address
			default:
				first, won = a.link, true
				cancel() // the other attempts end
			}
		case <-patience:
		}
	}
	if !won {
		return first, errs
	}
	return first, nil
}
