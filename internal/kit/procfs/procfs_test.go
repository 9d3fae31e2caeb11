package procfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// A name may hold whatever a user likes, and what is cut off is no stat.
func TestParse(t *testing.T) {
	const rest = " S 42 7 6 0 0 4 0 0 0 0 0 0 0 0 0 0 0 0 4711 0 0\n"
	want := Stat{State: 'S', Parent: 42, Start: 4711}
	for text, name := range map[string]string{
		"7 (a)" + rest: "a", "7 (a) S 1 (b)" + rest: "a) S 1 (b", "7 (\n) )" + rest: "\n) ", "7 ()" + rest: "",
	} {
		want.Name = name
		if got, ok := parse([]byte(text)); !ok || got != want || got.Ended() {
			t.Errorf("%q: got %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "no bracket\n", ")(", "8 (x) S 1\n", "9 (x) S x 7 6 0 0 4 0 0 0 0 0 0 0 0 0 0 0 0 4711 0 0\n"} {
		if got, ok := parse([]byte(text)); ok {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestReadStat(t *testing.T) {
	own, err := ReadStat(Dir(os.Getpid()))
	if err != nil || own.Parent != os.Getppid() || own.Start == 0 || own.Ended() {
		t.Errorf("this process: %+v, %v", own, err)
	}
	if same, err := Runs(Dir(os.Getpid()), OwnProgram); !same || err != nil {
		t.Errorf("this program is not the same: %v", err)
	}
	child := exec.Command("sleep", "1000")
	must.Do(t, child.Start())
	dir := Dir(child.Process.Pid)
	if same, err := Runs(dir, OwnProgram); same || err != nil {
		t.Errorf("sleep is the same program: %v, %v", same, err)
	}
	child.Process.Kill()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		if s, err := ReadStat(dir); err != nil || time.Now().After(deadline) {
			t.Fatalf("killed, and not waited for: %+v, %v", s, err)
		} else if s.Ended() {
			break
		}
	}
	child.Wait()
	if _, err := ReadStat(dir); !os.IsNotExist(err) {
		t.Errorf("there is no such process: %v", err)
	}
	if _, err := ReadStat(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20")
	f.Add(")")
	f.Add("")
	fuzztest.Run(f, []string{"1 ", "(a)", " b)", " S", " Z", " 2 3 4 5", " 777", "x", "-1", " "}, func(t *testing.T, name string) {
		parse([]byte(name))
		random := fuzztest.Random([]byte(name))
		want := Stat{Name: name, State: "SRDZXTt"[random.IntN(7)], Parent: random.Int(), Start: random.Uint64()}
		torn := fmt.Sprintf("4711 (%s) %c %d 7 6 -1 0 4", name, want.State, want.Parent)
		for range 12 {
			torn += fmt.Sprint(" ", fuzztest.Int64(random))
		}
		text := fmt.Sprint(torn, " ", want.Start, " 4096 -1 0\n")
		if got, ok := parse([]byte(text)); !ok || got != want {
			t.Fatalf("%q: %+v, %v, want %+v", text, got, ok, want)
		}
		if got, ok := parse([]byte(torn)); ok {
			t.Fatalf("%q: %+v", torn, got)
		}
	})
}
