package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A link begins with a proof in both directions over fresh nonces, so that neither side
// talks to a process that does not know the job's secret, and a recorded handshake is
// worthless:
//
//	acceptor -> dialer   magic, nonce A
//	dialer   -> acceptor rank of dialer, rank wanted, nonce D, HMAC("dial", A, D, ranks)
//	acceptor -> dialer   HMAC("accept", A, D, ranks), or zeros if D's proof is wrong,
//	                     or HMAC("other rank", ...), or HMAC("crossed", ...): the acceptor is dialling itself
const (
	magic     = "perigee2"
	nonceSize = 32
	proofSize = sha256.Size
)

// ErrProof means that the other side does not know the job's secret.
var ErrProof = errors.New("the peer does not know this job's secret")

// errHandshake is the ErrProof of a handshake. Who proves the wrong thing may know the right one.
var errHandshake = fmt.Errorf("%w, or the handshake was altered on the way", ErrProof)

// ErrNoChallenge means that one side was given the job's secret and the other expects to
// exchange it by a challenge.
var ErrNoChallenge = errors.New("one side of the link was given the job's secret, the other was not")

// ErrOtherRank means that the process at an address belongs to this job, but is another rank.
var ErrOtherRank = errors.New("another rank of this job answers there")

// errCrossed means that both ranks dial each other, and that the other one's link is the one to be used.
var errCrossed = errors.New("the other rank is dialling, too")

// errNoGreeting means that the acceptor's first words have not come.
var errNoGreeting = errors.New("no greeting")

// The parts in the conversation for which a proof may stand.
const (
	roleDial   = "dial"
	roleAccept = "accept"
	roleOther  = "other rank"
	roleCross  = "crossed"
)

func proof(secret []byte, role string, nonceA, nonceD []byte, from, to uint32) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(role))
	h.Write(nonceA)
	h.Write(nonceD)
	var ranks [8]byte
	binary.LittleEndian.PutUint32(ranks[:4], from)
	binary.LittleEndian.PutUint32(ranks[4:], to)
	h.Write(ranks[:])
	return h.Sum(nil)
}

// A listener with a challenge sends it first: magic, length in two bytes, contents.
const (
	challengeMagic = "perigeeS"
	maxChallenge   = 8 << 10
)

func sendChallenge(w io.Writer, challenge []byte) error {
	if len(challenge) > maxChallenge {
		return fmt.Errorf("challenge of %d bytes, at most %d allowed", len(challenge), maxChallenge)
	}
	message := binary.LittleEndian.AppendUint16([]byte(challengeMagic), uint16(len(challenge)))
	_, err := w.Write(append(message, challenge...))
	return err
}

func receiveChallenge(r io.Reader) ([]byte, error) {
	head := make([]byte, len(challengeMagic)+2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("no greeting: %w", err)
	}
	if err := checkMagic(head[:len(challengeMagic)], challengeMagic, magic); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint16(head[len(challengeMagic):])
	if n > maxChallenge {
		return nil, fmt.Errorf("the peer announced a challenge of %d bytes, at most %d allowed", n, maxChallenge)
	}
	challenge := make([]byte, n)
	if _, err := io.ReadFull(r, challenge); err != nil {
		return nil, fmt.Errorf("incomplete challenge: %w", err)
	}
	return challenge, nil
}

// checkMagic checks the first bytes of a link. other is the magic of a listener that
// exchanges the secret in the other way.
func checkMagic(got []byte, want, other string) error {
	switch string(got) {
	case want:
		return nil
	case other:
		return ErrNoChallenge
	}
	return errors.New("the peer is not a perigee of this version")
}

// greet runs the dialer's half of the handshake for a link from rank from to
// rank to. The caller bounds it by a deadline on rw.
func greet(rw io.ReadWriter, secret []byte, from, to int) (linkKeys, error) {
	hello := make([]byte, len(magic)+nonceSize)
	if _, err := io.ReadFull(rw, hello); err != nil {
		return linkKeys{}, fmt.Errorf("%w: %w", errNoGreeting, err)
	}
	if err := checkMagic(hello[:len(magic)], magic, challengeMagic); err != nil {
		return linkKeys{}, err
	}
	nonceA := hello[len(magic):]
	reply := make([]byte, 8+nonceSize, 8+nonceSize+proofSize)
	binary.LittleEndian.PutUint32(reply[:4], uint32(from))
	binary.LittleEndian.PutUint32(reply[4:8], uint32(to))
	nonceD := reply[8:]
	rand.Read(nonceD)
	reply = append(reply, proof(secret, roleDial, nonceA, nonceD, uint32(from), uint32(to))...)
	if _, err := rw.Write(reply); err != nil {
		return linkKeys{}, err
	}
	answer := make([]byte, proofSize)
	if _, err := io.ReadFull(rw, answer); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return linkKeys{}, fmt.Errorf("no answer to the handshake: %w", err)
		}
		return linkKeys{}, fmt.Errorf("it hung up in the middle of the handshake: %w", err)
	}
	is := func(role string) bool {
		return hmac.Equal(answer, proof(secret, role, nonceA, nonceD, uint32(from), uint32(to)))
	}
	switch {
	case is(roleAccept):
		return deriveKeys(secret, nonceA, nonceD, uint32(from), uint32(to))
	case is(roleOther):
		return linkKeys{}, ErrOtherRank
	case is(roleCross):
		return linkKeys{}, errCrossed
	}
	return linkKeys{}, errHandshake
}

// admit runs the acceptor's half and returns the dialer's rank. self is the
// rank that the dialer must want. claim, if set, is called for a dialer that has proven itself, and decides whether its
// link is wanted.
func admit(
	rw io.ReadWriter, secret []byte, self int, claim func(from int) bool,
) (from int, keys linkKeys, err error) {
	hello := make([]byte, 0, len(magic)+nonceSize)
	hello = append(hello, magic...)
	nonceA := make([]byte, nonceSize)
	rand.Read(nonceA)
	if _, err := rw.Write(append(hello, nonceA...)); err != nil {
		return 0, keys, err
	}
	reply := make([]byte, 8+nonceSize+proofSize)
	if _, err := io.ReadFull(rw, reply); err != nil {
		return 0, keys, err
	}
	dialer, wanted := binary.LittleEndian.Uint32(reply[:4]), binary.LittleEndian.Uint32(reply[4:8])
	nonceD := reply[8 : 8+nonceSize]
	if !hmac.Equal(reply[8+nonceSize:], proof(secret, roleDial, nonceA, nonceD, dialer, wanted)) {
		rw.Write(make([]byte, proofSize)) // a mere end would look as if this rank had died
		return 0, keys, errHandshake
	}
	if int64(wanted) != int64(self) {
		rw.Write(proof(secret, roleOther, nonceA, nonceD, dialer, wanted))
		return 0, keys, fmt.Errorf("rank %d looked for rank %d, but this is rank %d", dialer, wanted, self)
	}
	if claim != nil && !claim(int(dialer)) {
		rw.Write(proof(secret, roleCross, nonceA, nonceD, dialer, wanted))
		return int(dialer), keys, errCrossed
	}
	if _, err := rw.Write(proof(secret, roleAccept, nonceA, nonceD, dialer, wanted)); err != nil {
		return 0, keys, err
	}
	keys, err = deriveKeys(secret, nonceA, nonceD, dialer, wanted)
	return int(dialer), keys, err
}
