package lua

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	"perigee/spmd"
)

// A scenario reads any file: elsewhere, hidden, behind a link, and of an option's default. It reads none that is written.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	elsewhere, hidden, link := filepath.Join(dir, "a", "c.yaml"), filepath.Join(dir, "b", ".c.yaml"), filepath.Join(dir, "b", "link.yaml")
	output := filepath.Join(dir, "b", "out.json")
	failed := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Mkdir(filepath.Join(dir, "b"), 0o2775), os.Symlink("../a/c.yaml", link))
	for _, path := range []string{elsewhere, hidden, output} {
		failed = errors.Join(failed, os.WriteFile(path, []byte("key: 1\n"), 0o600))
	}
	if failed != nil {
		t.Fatal(failed)
	}
	const source = `return { options = { options.output { "out", nil, "a file" } }, ranks = function(opt)
		config.load("PATH") return 1 end, run = print }`
	for path, want := range map[string]string{elsewhere: "", hidden: "", link: "", output: "is what is read: it would be written over"} {
		r, err := Load("x.lua", strings.Replace(source, "PATH", path, 1), io.Discard)
		must.Do(t, err)
		r.Permit(Access{Named: map[string]any{"out": output}})
		if _, err := r.Ranks(map[string]any{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		r.Close()
	}
}

// Transfers make no files, and touch none, that the user has not named, whichever function asks for them.
func TestFilesOfTransfers(t *testing.T) {
	dir := t.TempDir()
	theirs, named := filepath.Join(dir, "theirs"), filepath.Join(dir, "named")
	there, precious := filepath.Join(theirs, "there"), bytes.Repeat([]byte("precious"), 512)
	must.Do(t, errors.Join(os.Mkdir(theirs, 0o700), os.WriteFile(there, precious, 0o600)))
	const prepare = `transfer.prepare { mem = "dram", matrix = matrix.from { { 8 } }, storage = { [0] = { file_path = opt.at, file_size = 4096, write_size = 4096 } } }:run()`
	const lanes = `transfer.lanes { peers = { [0] = { 0 } }, block = 4096, remote_mem = "file", path = opt.at, overwrite = true }:close()`
	for _, c := range []struct {
		call, path   string
		named, anyIO bool
		want         string // "" where it may
	}{
		{prepare, filepath.Join(dir, "outside"), false, false, "the scenario may not use "},
		{lanes, filepath.Join(dir, "outside"), false, false, "the scenario may not use "},
		{prepare, named, true, false, ""},
		{lanes, named, true, false, ""},
		{prepare, filepath.Join(theirs, "new"), false, false, ""}, // beside the scenario, where its matrices are
		{lanes, filepath.Join(theirs, "new"), false, false, "the scenario may not use "},
		{prepare, there, false, false, there},
		{prepare, filepath.Join(dir, "any"), false, true, ""},
	} {
		err := traffictest.Worlds(t, 1, func(w *spmd.World) error {
			declared := `options.string { "at", "" }`
			if c.named {
				declared = `options.storage { "at" }`
			}
			r, err := Load("x.lua", "return { options = { "+declared+" }, run = function(opt) "+c.call+" end }", io.Discard)
			if err != nil {
				return err
			}
			defer r.Close()
			named := map[string]any{"at": c.path}
			r.Begin(testEnv(w, io.Discard))
			r.Permit(Access{Folder: theirs, AllowIO: c.anyIO, Named: named})
			return r.Run(named)
		})[0]
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s at %s: got %v, want %q", c.call, c.path, err, c.want)
		}
		if data, err := os.ReadFile(there); err != nil || !bytes.Equal(data, precious) {
			t.Fatalf("%s: the file that was there: %.20q, %v", c.call, data, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "outside")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file outside: %v", err)
	}
}

// What is no matrix is an error, even if it never ends.
func TestMatricesAreFiles(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"/dev/zero", dir} {
		r, err := Load("x.lua", "return { ranks = function() matrix.load([["+path+"]]) return 1 end, run = print }", io.Discard)
		must.Do(t, err)
		r.Permit(Access{AllowIO: true})
		if _, err := r.Ranks(map[string]any{}); fault.KindOf(err) != fault.Input {
			t.Errorf("%s: %v", path, err)
		}
		r.Close()
	}
}

// A configuration that the user has named names matrices and files of transfers anywhere; what is wrong in a matrix is said.
func TestFilesOfConfigurations(t *testing.T) {
	dir := t.TempDir()
	config, good, bad := filepath.Join(dir, "c", "c.yaml"), filepath.Join(dir, "m", "m.txt"), filepath.Join(dir, "m", "bad")
	failed := errors.Join(os.Mkdir(filepath.Dir(config), 0o755), os.Mkdir(filepath.Dir(good), 0o755),
		os.WriteFile(config, []byte("good: "+good+"\nbad: ../m/bad\nstore: ../m/store\n"), 0o600),
		os.WriteFile(good, []byte("0 1\n1 0\n"), 0o600), os.WriteFile(bad, []byte("hello x\n"), 0o600))
	if failed != nil {
		t.Fatal(failed)
	}
	const source = `local schema = { { name = "good", type = "path" }, { name = "bad", type = "path" }, { name = "store", type = "path" } }
	return { options = { options.path { "config", "x.yaml", "a config" } }, run = function(opt)
		local c = config.load(opt.config, schema) CALL end }`
	const prepare = `transfer.prepare { mem = "dram", matrix = matrix.new(2), storage = { [1] = { file_path = PATH, file_size = 4096, write_size = 4096 } } }:run()`
	for call, want := range map[string]string{
		"matrix.load(c.good)":                            "",
		"matrix.load(c.bad)":                             "hello",
		strings.Replace(prepare, "PATH", "c.store", 1):   "",
		strings.Replace(prepare, "PATH", "'/tmp/no'", 1): "the scenario may not use /tmp/no for transfers",
	} {
		named := map[string]any{"config": config}
		errs := traffictest.Worlds(t, 2, func(w *spmd.World) error {
			r, err := Load("x.lua", strings.Replace(source, "CALL", call, 1), io.Discard)
			if err != nil {
				return err
			}
			defer r.Close()
			r.Begin(testEnv(w, io.Discard))
			r.Permit(Access{Named: named})
			return r.Run(named)
		})
		if err := errors.Join(errs...); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", call, err, want)
		}
	}
}
