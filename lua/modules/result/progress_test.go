package result

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
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
	bar.Add(30, 0)
	if got, want := bar.line(80*time.Second), "perigee: 40 of 40 MiB (100 %) after 80 s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	bar = &progressBar{}
	if got, want := bar.line(0), "perigee: 0 of 0 after 0 s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A bar that knows of pauses goes by time: 30 runs alone of 0.1 s, 5 ms of them paused, and then one iteration of 100 s
// of pauses, whose 2 runs are expected to take as long as those alone.
func TestProgressKnowsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bar := &progressBar{total: 32, label: "runs", known: 30*0.005 + 100, started: time.Now()}
		check := func(want string) {
			t.Helper()
			if got := bar.line(time.Since(bar.started)); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		}
		time.Sleep(time.Second) // nothing is done: only pauses are known
		check("perigee: 0 of 32 runs; 0 % of the time after 1 s, about 99 s left")
		bar.started = time.Now()
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			bar.Add(1, 0.005)
		}
		check("perigee: 30 of 32 runs; 2 % of the time after 3 s, about 100 s left") // by runs it would be 93 %
		time.Sleep(48600 * time.Millisecond)                                         // half of 103.19 s
		check("perigee: 30 of 32 runs; 50 % of the time after 52 s, about 52 s left")
		time.Sleep(100 * time.Second) // it takes longer than expected
		check("perigee: 30 of 32 runs; 99 % of the time after 152 s, about 0 s left")
		bar.Add(2, 100)
		check("perigee: 32 of 32 runs; 99 % of the time after 152 s, about 0 s left")
		bar.total, bar.known = 64, 200.15 // another iteration, as slow as the last: 51.45 s for 32 runs besides the pauses
		check("perigee: 32 of 64 runs; 50 % of the time after 152 s, about 151 s left")

		bar = &progressBar{label: "iterations", known: 30, started: time.Now()} // of which the number is not known
		time.Sleep(12 * time.Second)
		bar.Add(700, 0)
		check("perigee: 700 iterations; 40 % of the time after 12 s, about 18 s left")
	})
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
