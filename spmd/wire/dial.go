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
	conn, err := dial(ctx, address, from, to, func(net.Conn) ([]byte, error) { return secret, nil })
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// DialChallenged is Dial for a rank that does not know the secret yet: open reads it from
// the challenge of the listener. DialChallenged returns it.
func DialChallenged(
	ctx context.Context, address string, open func(challenge []byte) (secret []byte, err error), from, to int,
) (conn net.Conn, secret []byte, err error) {
	proven, err := dial(ctx, address, from, to, func(conn net.Conn) ([]byte, error) {
		challenge, err := receiveChallenge(conn)
		if err == nil {
			secret, err = open(challenge)
		}
		return secret, err
	})
	if err != nil {
		return nil, nil, err
	}
	return proven, secret, nil
}

func dial(
	ctx context.Context, address string, from, to int, learn func(net.Conn) (secret []byte, err error),
) (proven *Conn, err error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: limitSilence}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	secret, err := learn(conn)
	if err == nil {
		proven, err = greet(conn, secret, from, to)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return proven, nil
}
