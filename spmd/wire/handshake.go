package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// A link begins with a proof in both directions over fresh nonces, so that neither side
// talks to a process that does not know the job's secret, and a recorded handshake is
// worthless:
//
//	acceptor -> dialer   magic, nonce A, length of the challenge (2 bytes), challenge
//	dialer   -> acceptor rank of dialer, rank wanted, nonce D, HMAC("dial", A, D, ranks)
//	acceptor -> dialer   HMAC("accept", A, D, ranks), or zeros if D's proof is wrong,
//	                     or HMAC("other rank", ...), or HMAC("crossed", ...): the acceptor is dialling itself
//
// A dialer that has a choice of several connections then confirms the one that it keeps, with an empty frame.
const (
	magic     = family + "3"
	family    = "perigee" // of the magic of all versions of these links
	nonceSize = 32
	proofSize = sha256.Size
	helloSize = len(magic) + nonceSize + 2 // of the acceptor, without the challenge
	replySize = 8 + nonceSize + proofSize  // of the dialer
)

// ErrProof means that the other side does not know the job's secret.
var ErrProof = errors.New("the peer does not know this job's secret")

// errHandshake is the ErrProof of a handshake. Who proves the wrong thing may know the right one.
var errHandshake = fmt.Errorf("%w, or the handshake was altered on the way", ErrProof)

// ErrOtherWire means that what answers is a perigee whose links begin otherwise.
var ErrOtherWire = errors.New("another version of perigee")

// ErrNoChallenge means that one side was given the job's secret and the other expects to
// exchange it by a challenge.
var ErrNoChallenge = errors.New("one side of the link was given the job's secret, the other was not")

// ErrOtherRank means that the process at an address belongs to this job, but is another rank.
var ErrOtherRank = errors.New("another rank of this job answers there")

// errCrossed means that both ranks dial each other, and that the other one's link is the one to be used.
var errCrossed = errors.New("the other rank is dialling, too")

// errNoReply means that a dialer has hung up at the greeting: one of another version does.
var errNoReply = errors.New("it hung up at the greeting")

// The parts in the conversation for which a proof may stand.
const (
	roleDial   = "dial"
	roleAccept = "accept"
	roleOther  = "other rank"
	roleCross  = "crossed"
)

// transcript holds the values that both ends of a handshake know.
type transcript struct {
	secret         []byte
	nonceA, nonceD []byte
	from, to       uint32
}

func (p transcript) ranks() []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, p.from), p.to)
}

func (p transcript) proof(role string) []byte {
	h := hmac.New(sha256.New, p.secret)
	h.Write(slices.Concat([]byte(role), p.nonceA, p.nonceD, p.ranks()))
	return h.Sum(nil)
}

// conn makes the connection on which all frames carry a proof.
func (p transcript) conn(below net.Conn, dialed bool) (*Conn, error) {
	mine, theirs, err := p.keys()
	if err != nil {
		return nil, err
	}
	if !dialed {
		mine, theirs = theirs, mine
	}
	return newConn(below, mine, theirs)
}

// learner returns the job's secret, given the challenge of a listener.
type learner func(challenge []byte) (secret []byte, err error)

// given is the learner of a rank that was given the secret.
func given(secret []byte) learner {
	return func(challenge []byte) ([]byte, error) {
		if len(challenge) > 0 {
			return nil, ErrNoChallenge
		}
		return secret, nil
	}
}

// greet runs the dialer's half of the handshake for a link from rank from to
// rank to. The caller bounds it by a deadline on conn.
func greet(conn net.Conn, learn learner, from, to int) (*Conn, error) {
	hello := make([]byte, helloSize)
	if _, err := io.ReadFull(conn, hello[:len(magic)]); err != nil {
		return nil, fmt.Errorf("no greeting: %w", err)
	}
	switch greeting := string(hello[:len(magic)]); {
	case greeting == magic:
	case strings.HasPrefix(greeting, family):
		return nil, fmt.Errorf("%w answers there: it greets with %q, this one with %q", ErrOtherWire, greeting, magic)
	default:
		return nil, errors.New("the peer is not a perigee of this version")
	}
	if _, err := io.ReadFull(conn, hello[len(magic):]); err != nil {
		return nil, fmt.Errorf("no greeting: %w", err)
	}
	challenge := make([]byte, binary.LittleEndian.Uint16(hello[helloSize-2:]))
	if _, err := io.ReadFull(conn, challenge); err != nil {
		return nil, fmt.Errorf("incomplete challenge: %w", err)
	}
	secret, err := learn(challenge)
	if err != nil {
		return nil, err
	}
	p := transcript{secret, hello[len(magic) : helloSize-2], make([]byte, nonceSize), uint32(from), uint32(to)}
	rand.Read(p.nonceD)
	if _, err := conn.Write(slices.Concat(p.ranks(), p.nonceD, p.proof(roleDial))); err != nil {
		return nil, err
	}
	answer := make([]byte, proofSize)
	_, err = io.ReadFull(conn, answer)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("no answer to the handshake: %w", err)
	case err != nil:
		return nil, fmt.Errorf("it hung up in the middle of the handshake: %w", err)
	case hmac.Equal(answer, p.proof(roleAccept)):
		return p.conn(conn, true)
	case hmac.Equal(answer, p.proof(roleOther)):
		return nil, ErrOtherRank
	case hmac.Equal(answer, p.proof(roleCross)):
		return nil, errCrossed
	}
	return nil, errHandshake
}

// admit runs the acceptor's half and returns the dialer's rank. self is the
// rank that the dialer must want. claim, if set, decides whether a connection of a dialer that has proven itself is
// wanted. Where it returns true admit returns no error.
func admit(
	conn net.Conn, challenge, secret []byte, self int, claim func(from int) bool,
) (c *Conn, from int, err error) {
	if len(challenge) > math.MaxUint16 {
		return nil, 0, fmt.Errorf("challenge of %d bytes, at most %d allowed", len(challenge), math.MaxUint16)
	}
	nonceA := make([]byte, nonceSize)
	rand.Read(nonceA)
	length := binary.LittleEndian.AppendUint16(nil, uint16(len(challenge)))
	if _, err := conn.Write(slices.Concat([]byte(magic), nonceA, length, challenge)); err != nil {
		return nil, 0, err
	}
	reply := make([]byte, replySize)
	switch n, err := io.ReadFull(conn, reply); {
	case n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return nil, 0, errNoReply
	case err != nil:
		return nil, 0, err
	}
	dialer, wanted := binary.LittleEndian.Uint32(reply[:4]), binary.LittleEndian.Uint32(reply[4:8])
	p := transcript{secret, nonceA, reply[8 : 8+nonceSize], dialer, wanted}
	if !hmac.Equal(reply[8+nonceSize:], p.proof(roleDial)) {
		conn.Write(make([]byte, proofSize)) // a mere end would look as if this rank had died
		return nil, 0, errHandshake
	}
	if int64(wanted) != int64(self) {
		conn.Write(p.proof(roleOther))
		return nil, 0, fmt.Errorf("rank %d looked for rank %d, but this is rank %d", dialer, wanted, self)
	}
	if c, err = p.conn(conn, false); err != nil {
		return nil, 0, err
	}
	if claim != nil && !claim(int(dialer)) {
		conn.Write(p.proof(roleCross))
		return nil, int(dialer), errCrossed
	}
	conn.Write(p.proof(roleAccept)) // where this fails the connection has ended, as its first read says
	return c, int(dialer), nil
}

func (c *Conn) confirm() error {
	_, err := c.Conn.Write(c.out.appendFrame(nil, Header{}, nil))
	return err
}

func (c *Conn) awaitConfirmation() error {
	frame := make([]byte, frameStart)
	if _, err := io.ReadFull(c.Conn, frame); err != nil {
		return err
	}
	return c.in.feed(frame)
}
