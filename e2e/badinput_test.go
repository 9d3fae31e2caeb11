package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
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

// badInput is something wrong in the user's files or words.
type badInput struct {
	name    string
	files   map[string]string // over c.yaml (a good config) and m.txt (a good matrix)
	command string            // sequential-ct-perftest if empty
	args    []string          // c.yaml is in front of them
	config  string            // instead of c.yaml
	kind    fault.Kind
	wanted  []string // what the message must hold
}

func matrixCase(name, text string, wanted ...string) badInput {
	return badInput{name: name, files: map[string]string{"m.txt": text}, kind: fault.Input, wanted: wanted}
}

func configCase(name, text string, wanted ...string) badInput {
	return badInput{name: name, files: map[string]string{"c.yaml": text}, kind: fault.Input, wanted: wanted}
}

var badInputs = []badInput{
	matrixCase("not square", "0 1 2\n1 0 2\n", "m.txt: wanted 3 rows", "got 2"),
	matrixCase("ragged", "0 1\n1\n", "m.txt:2: wanted 2 cells", "got 1"),
	matrixCase("negative", "0 -1\n1 0\n", `m.txt:1: cell 2: wanted 0 bytes or more, got "-1"`),
	matrixCase("not a number", "0 NaN\n1 0\n", `m.txt:1: cell 2: wanted`, `got "NaN"`),
	matrixCase("infinite", "0 inf\n1 0\n", `m.txt:1: cell 2: wanted`, `got "inf"`),
	matrixCase("unknown unit", "0 1\n12Q 0\n", `m.txt:2: cell 1: wanted`, `got "12Q"`),
	matrixCase("overflow", "0 99999999999G\n1 0\n", `m.txt:1: cell 2: wanted at most`, `got "99999999999G"`),
	matrixCase("sum overflows", "0 8589934591G 1\n8589934591G 0 1\n8589934591G 1 0\n", "m.txt"),
	matrixCase("empty", "", "m.txt: wanted a matrix", "got an empty text"),
	matrixCase("only white space", " \n\n", "m.txt: wanted a matrix"),
	matrixCase("binary rubbish", "\x00\x01\xff\xfe\n", "m.txt:1"),
	{
		name: "matrix of another size than the world", args: []string{"-n", "4"}, kind: fault.Input,
		wanted: []string{"m.txt", "the matrix is 2 x 2, but there are 4 ranks", "hint: run it with 2 ranks"},
	},
	{
		name:  "matrices of different sizes",
		files: map[string]string{"c.yaml": pattern() + "- matrix_file: n.txt\n", "n.txt": "0 1 1\n1 0 1\n1 1 0\n"},
		kind:  fault.Input, wanted: []string{"pattern 1 (n.txt)", "the matrix is 3 x 3, but there are 2 ranks"},
	},
	configCase("matrix missing", strings.Replace(pattern(), "m.txt", "gone.txt", 1), "gone.txt", "no such file"),
	configCase("matrix is a folder", "traffic_patterns:\n- matrix_file: .\n", "matrix", "is a directory"),
	{
		name:  "second matrix missing",
		files: map[string]string{"c.yaml": pattern() + "- matrix_file: gone.txt\n"}, kind: fault.Input,
		wanted: []string{"gone.txt", "no such file"},
	},
	{name: "config missing", config: "gone.yaml", kind: fault.Input, wanted: []string{"gone.yaml: there is no such file"}},
	{name: "config is a folder", config: ".", kind: fault.Input, wanted: []string{".: wanted a regular file, got a folder"}},
	{name: "config of an unknown format", config: "c.ini", files: map[string]string{"c.ini": "a=1"}, kind: fault.Input, wanted: []string{"c.ini: wanted a file that ends in .yaml, .yml, .json, .toml"}},
	configCase("unknown key", pattern("shard: 2"), "c.yaml:3: traffic_patterns[0].shard:", `did you mean "shards"?`),
	configCase("unknown key at the top", "itres: 2\n"+pattern(), "c.yaml:1: itres", `did you mean "iters"?`),
	configCase("wrong type", pattern("shards: two"), "c.yaml:3: traffic_patterns[0].shards: wanted a whole number, got the text \"two\""),
	configCase("float for int", pattern("shards: 1.5"), "c.yaml:3: traffic_patterns[0].shards: wanted a whole number, got the number 1.5"),
	configCase("list for map", "traffic_patterns: 3\n", "c.yaml:1: traffic_patterns: wanted a list"),
	configCase("text for pattern", "traffic_patterns:\n- m.txt\n", "c.yaml:2: traffic_patterns[0]: wanted a map"),
	configCase("shards 0", pattern("shards: 0"), "c.yaml:3: traffic_patterns[0].shards: wanted 1 to 1048576, got 0"),
	configCase("shards negative", pattern("shards: -1"), "traffic_patterns[0].shards: wanted 1 to 1048576, got -1"),
	configCase("unknown mem_type", pattern("mem_type: tape"), "c.yaml:3: traffic_patterns[0].mem_type: wanted one of cuda, vram, cpu, dram, got the text \"tape\""),
	configCase("unknown xfer_op", pattern("xfer_op: COPY"), "c.yaml:3: traffic_patterns[0].xfer_op: wanted one of WRITE, READ, got the text \"COPY\""),
	configCase("negative sleep", pattern("sleep_before_launch_sec: -1"), "c.yaml:3: traffic_patterns[0].sleep_before_launch_sec: wanted at least 0, got -1"),
	configCase("sleep is no number", pattern("sleep_after_launch_sec: .nan"), "c.yaml:3: traffic_patterns[0].sleep_after_launch_sec"),
	configCase("no patterns", "traffic_patterns: []\n", "c.yaml:1: traffic_patterns: wanted at least 1 element"),
	configCase("key missing", "iters: 2\n", "c.yaml:1: the key traffic_patterns is missing"),
	configCase("matrix_file missing", "traffic_patterns:\n- shards: 1\n", "c.yaml:2: traffic_patterns[0]", "matrix_file is missing"),
	configCase("iters 0", "iters: 0\n"+pattern(), "c.yaml:1: iters: wanted 1 to 100000000, got 0"),
	configCase("warmup negative", "warmup_iters: -1\n"+pattern(), "c.yaml:1: warmup_iters: wanted 0 to 100000000, got -1"),
	configCase("key given twice", "iters: 1\niters: 2\n"+pattern(), "c.yaml:2: iters: this key is given twice; the first is on line 1"),
	configCase("no YAML", "traffic_patterns: [\n", "c.yaml:2: this is not YAML"),
	configCase("empty config", "", "c.yaml"),
	{
		name: "TOML with an unknown key", config: "c.toml", kind: fault.Input,
		files:  map[string]string{"c.toml": "iters = 1\n[[traffic_patterns]]\nmatrix_file = \"m.txt\"\nshard = 2\n"},
		wanted: []string{"c.toml:4: traffic_patterns[0].shard"},
	},
	{
		name: "no TOML", config: "c.toml", kind: fault.Input,
		files: map[string]string{"c.toml": "iters = \n"}, wanted: []string{"c.toml:1: this is not TOML"},
	},
	{
		name: "JSON of a wrong type", config: "c.json", kind: fault.Input,
		files:  map[string]string{"c.json": "{\"traffic_patterns\": [\n{\"matrix_file\": 7}]}"},
		wanted: []string{"c.json:2: traffic_patterns[0].matrix_file: wanted"},
	},
	{
		name: "no JSON", config: "c.json", kind: fault.Input,
		files: map[string]string{"c.json": "{\"traffic_patterns\": ["}, wanted: []string{"c.json:1: this is not JSON"},
	},
	{
		name: "ct-perftest with a list", command: "ct-perftest", kind: fault.Usage,
		wanted: []string{"c.yaml has a list of patterns, traffic_patterns", "perigee sequential-ct-perftest plays it"},
	},
	{
		name: "ct-perftest with iters 0", command: "ct-perftest", kind: fault.Input,
		files:  map[string]string{"c.yaml": "iters: 0\ntraffic_pattern: {matrix_file: m.txt}\n"},
		wanted: []string{"c.yaml:1: iters: wanted 1 to 100000000, got 0"},
	},
	{
		name: "flag iters 0", args: []string{"--iters", "0"}, kind: fault.Usage,
		wanted: []string{"--iters is 0, want at least 1"},
	},
	{
		name: "buffers larger than memory", files: map[string]string{"m.txt": "0 1000G\n1000G 0\n"}, kind: fault.Resource,
		wanted: []string{"the buffers of the 2 ranks on ", "need 4.29 TB (", "memory", "hint: less traffic (perigee matgen --scale"},
	},
	{
		name: "buffers beyond all numbers", files: map[string]string{"m.txt": "0 4294967295G\n4294967295G 0\n"}, kind: fault.Resource,
		wanted: []string{"need 9.22 EB"},
	},
	{
		name: "result into a missing folder", args: []string{"--result", "gone/r.json"}, kind: fault.Output,
		wanted: []string{"--result: cannot write gone/r.json: folder gone: no such file or directory", "hint: mkdir -p gone, or name another file with --result"},
	},
	{
		name: "result is a folder", args: []string{"--result", "d.json"}, files: map[string]string{"d.json/x": ""}, kind: fault.Output,
		wanted: []string{"--result: cannot write d.json: it is a folder"},
	},
	{
		name: "result in a folder without write permission", args: []string{"--result", "/proc/r.json"}, kind: fault.Output,
		wanted: []string{"--result: cannot write /proc/r.json"},
	},
	{
		name: "result of an unknown format", args: []string{"--result", "r.txt"}, kind: fault.Usage,
		wanted: []string{"r.txt: the name must end in .json, .json.gz or .json.zst"},
	},
	{
		name: "JSON into a missing folder", args: []string{"--json-output-path", "gone/o.json"}, kind: fault.Output,
		wanted: []string{"--json-output-path: cannot write gone/o.json: folder gone: no such file or directory"},
	},
	{
		name: "JSON is a folder", args: []string{"--json-output-path", "."}, kind: fault.Output,
		wanted: []string{"--json-output-path: cannot write .: it is a folder"},
	},
}

func TestBadInput(t *testing.T) {
	for _, c := range badInputs {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			contents := map[string]string{"c.yaml": pattern(), "m.txt": good}
			maps.Copy(contents, c.files)
			dir := harness.Files(t, contents)
			checkRefused(t, dir, c, "shm")
		})
	}
}

// checkRefused calls perigee and proves that it ends as it should and leaves
// no file behind.
func checkRefused(t *testing.T, dir string, c badInput, engine string) {
	t.Helper()
	config := c.config
	if config == "" {
		config = "c.yaml"
	}
	command := c.command
	if command == "" {
		command = "sequential-ct-perftest"
	}
	args := append([]string{command, config, "--engine", engine, "--warmup-iters", "1", "--isolation-iters", "1"}, c.args...)
	if !slices.Contains(args, "--result") {
		args = append(args, "--result", "result.json")
	}
	if !slices.Contains(args, "--json-output-path") {
		args = append(args, "--json-output-path", "out.json")
	}
	before, err := tree(dir)
	must.Do(t, err)
	o := harness.Run(t, dir, args...)
	checkComplaint(t, o, c.kind, c.wanted...)
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
		if ok && !strings.HasPrefix(message, "partial result:") && !strings.HasPrefix(message, "still writing") {
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
		checkRefused(t, dir, badInput{kind: fault.Resource, wanted: []string{"need 4.29 TB"}}, engine)
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
			checkRefused(t, dir, badInput{kind: fault.Resource, wanted: []string{"phase prepare", "hint: ", "dram"}}, engine)
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
