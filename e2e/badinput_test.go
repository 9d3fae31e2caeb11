package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// good is a matrix that nothing is wrong with.
const good = "0 1\n1 0\n"

// pattern is a config of one pattern with the matrix m.txt and further keys.
func pattern(keys ...string) string {
	text := "traffic_patterns:\n- matrix_file: m.txt\n"
	for _, k := range keys {
		text += "  " + k + "\n"
	}
	return text
}

// checkRefused plays c.yaml, and proves that perigee ends as it should and leaves no file behind.
func checkRefused(t *testing.T, dir, engine string, kind fault.Kind, wanted ...string) {
	t.Helper()
	before, err := tree(dir)
	must.Do(t, err)
	o := harness.Run(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", engine, "--warmup-iters", "1", "--isolation-iters", "1",
		"--result", "result.json", "--json-output-path", "out.json")
	checkComplaint(t, o, kind, wanted...)
	if after, err := tree(dir); err != nil || !slices.Equal(before, after) {
		t.Errorf("files before: %q, after: %q", before, after)
	}
}

// checkComplaint checks an exit code, and an error message that a person reads once.
func checkComplaint(t testing.TB, o harness.Outcome, kind fault.Kind, wanted ...string) {
	t.Helper()
	for _, problem := range problemsOf(o, kind, wanted...) {
		t.Error(problem)
	}
}

// problemsOf lists what is wrong with an exit code, and with a message that a person is to read once.
func problemsOf(o harness.Outcome, kind fault.Kind, wanted ...string) (list []string) {
	note := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if o.Code != int(kind) {
		note("exit code %d, want %d (%v)\nstdout:\n%s\nstderr:\n%s", o.Code, kind, kind, o.Stdout, o.Stderr)
		return list
	}
	for _, w := range wanted {
		if !strings.Contains(o.Stderr, w) {
			note("stderr lacks %q:\n%s", w, o.Stderr)
		}
	}
	if said := complaintsIn(o.Stderr); len(said) != 1 {
		note("%d error messages, want 1:\n%s", len(said), o.Stderr)
	}
	for _, bad := range []string{"panic", "goroutine ", "%!", "0x", "<nil>", "nil pointer"} {
		if strings.Contains(o.Stderr, bad) {
			note("the message holds %q:\n%s", bad, o.Stderr)
		}
	}
	if o.Took > harness.Patience {
		note("took %v", o.Took)
	}
	return list
}

// progress is how a line begins that a long run writes from time to time where there is no terminal.
var progress = regexp.MustCompile(`^\d+ of \d+ `)

// complaintsIn returns the error messages in what perigee has written. Those
// of other ranks than 0 have a label.
func complaintsIn(stderr string) []string {
	var list []string
	for line := range strings.Lines(stderr) {
		_, unlabelled, labelled := strings.Cut(line, "] ")
		if labelled && strings.HasPrefix(line, "[") {
			line = unlabelled
		}
		message, ok := strings.CutPrefix(line, "perigee: ")
		if ok && !strings.HasPrefix(message, "partial result:") && !strings.HasPrefix(message, "still writing") &&
			!progress.MatchString(message) {
			list = append(list, message)
		}
	}
	return list
}

// tree lists all files below a folder with their sizes.
func tree(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			list = append(list, fmt.Sprint(strings.TrimPrefix(path, dir), " ", info.Size()))
		}
		return err
	})
	return list, err
}

// A bad matrix is as bad for NIXL; and a run that is refused leaves the result
// of an earlier one alone.
func TestBadInputKeepsEarlierResult(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"c.yaml": pattern(), "m.txt": "0 1000G\n1000G 0\n", "result.json": "precious", "out.json": "also precious"})
		checkRefused(t, dir, engine, fault.Resource, "need 4.29 TB")
		for name, want := range map[string]string{"result.json": "precious", "out.json": "also precious"} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("%s is now %q (%v)", name, got, err)
			}
		}
	})
}

// GPU memory where there is no GPU.
func TestNoGPU(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has a GPU")
	}
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, mem := range []string{"cuda", "vram"} {
			dir := harness.Files(t, map[string]string{"c.yaml": pattern("mem_type: " + mem), "m.txt": good})
			checkRefused(t, dir, engine, fault.Resource, "phase prepare", "hint: ", "dram")
		}
		// The flag is how to run it all the same.
		dir := harness.Files(t, map[string]string{"c.yaml": pattern("mem_type: cuda"), "m.txt": good})
		harness.MustRun(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", engine, "--mem-type", "dram", "--verify-buffers")
		// Without the key perigee decides, and says so.
		dir = harness.Files(t, map[string]string{"c.yaml": pattern(), "m.txt": good})
		o := harness.MustRun(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", engine)
		harness.Contains(t, "stdout", o.Stdout, "# note: memory type not given, using dram: ")
	})
}
