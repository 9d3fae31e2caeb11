package wire

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"

	"perigee/internal/kit/must"
)

// Strangers that knock all the time do not fill a disk: only the first few are logged.
func TestStrangersInLog(t *testing.T) {
	var text bytes.Buffer // slog's handler writes one line at a time
	d, err := Listen(ListenerConfig{
		Address: "127.0.0.1:0", Secret: []byte("secret"), Enter: func(c net.Conn, _ int) { c.Close() },
		Log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	must.Do(t, err)
	const strangers = 70
	for range strangers {
		if _, err := Dial(t.Context(), fmt.Sprint("127.0.0.1:", d.Port()), []byte("another"), 1, 0); !errors.Is(err, ErrProof) {
			t.Fatal(err)
		}
	}
	d.Close()
	lines := bytes.Count(text.Bytes(), []byte("rejected a connection"))
	if lines != loggedRejections || !bytes.Contains(text.Bytes(), []byte("rejected=16\n")) {
		t.Errorf("%d lines for %d strangers:\n%s", lines, strangers, &text)
	}
}
