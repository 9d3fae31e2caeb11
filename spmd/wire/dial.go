package wire

import (
	"context"
	"fmt"
	"net"
	"time"
)

// dialTimeout is how long the other host may take to answer at all.
const dialTimeout = 10 * time.Second

// Dial connects rank from to rank to at address (host:port). Both sides prove to each
// other that they know the secret. What is returned is a *Conn. A rank that is stopped, or busy, may take long: only
// ctx bounds the handshake.
func Dial(ctx context.Context, address string, secret []byte, from, to int) (net.Conn, error) {
	conn, err := dial(ctx, address, given(secret), from, to)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// DialChallenged is Dial for a rank that does not know the secret yet: open reads it from
// the challenge of the listener. DialChallenged returns it.
func DialChallenged(
	ctx context.Context, address string, open func(challenge []byte) (secret []byte, err error), from, to int,
) (net.Conn, []byte, error) {
	var secret []byte
	conn, err := dial(ctx, address, func(challenge []byte) (_ []byte, err error) {
		if len(challenge) == 0 {
			return nil, ErrNoChallenge
		}
		secret, err = open(challenge)
		return secret, err
	}, from, to)
	if err != nil {
		return nil, nil, err
	}
	return conn, secret, nil
}

func dial(ctx context.Context, address string, learn learner, from, to int) (*Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: limitSilence}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	proven, err := greet(conn, learn, from, to)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return proven, nil
}
