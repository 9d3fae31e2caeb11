package result

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// Where there is no terminal a line appears at each tick, with what is left as far as the bar knows it.
func TestProgressLines(t *testing.T) {
	bar := &progressBar{total: 40, label: "MiB", started: time.Now()}
	read, write := io.Pipe()
	tick, ended, over := make(chan time.Time), make(chan struct{}), make(chan struct{})
	go func() {
		bar.write(write, tick, ended)
		close(over)
	}()
	tick <- time.Time{}
	line := make([]byte, 200)
	n, err := read.Read(line)
	if got := string(line[:n]); err != nil || !strings.HasPrefix(got, "perigee: 0 of 40 MiB (0 %) after 0 s\n") {
		t.Errorf("got %q, %v", got, err)
	}
	close(ended)
	<-over

	bar.AddBytes(10<<20 - 1)
	bar.AddBytes(1)
	if got, want := bar.line(20*time.Second), "perigee: 10 of 40 MiB (25 %) after 20 s, about 60 s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	bar.add(30)
	if got, want := bar.line(80*time.Second), "perigee: 40 of 40 MiB (100 %) after 80 s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	bar = &progressBar{}
	if got, want := bar.line(0), "perigee: 0 of 0 after 0 s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Lines end with the bar, and with the script that left it unfinished.
func TestProgressLinesEnd(t *testing.T) {
	var out bytes.Buffer
	ended, over := make(chan struct{}), make(chan struct{})
	bar := &progressBar{ended: ended}
	go func() {
		bar.write(&out, nil, ended)
		close(over)
	}()
	bar.finish()
	bar.finish()
	<-over
}
