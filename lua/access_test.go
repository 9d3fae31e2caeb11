package lua

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/traffictest"
	"perigee/spmd"
)

// A scenario reads what the user has named and what is beside or below that, and nothing else.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	secret, scenario := filepath.Join(home, "secret.json"), filepath.Join(dir, "theirs", "x.lua")
	config := filepath.Join(dir, "configs", "c.yaml")
	beside, below := filepath.Join(dir, "configs", "m.json"), filepath.Join(dir, "configs", "deep", "m.json")
	link := filepath.Join(dir, "configs", "link.json")
	var failed error
	hidden := filepath.Join(dir, "configs", ".secret.json")
	for _, path := range []string{secret, scenario, config, beside, below, hidden, filepath.Join(dir, "theirs", "own.json")} {
		failed = errors.Join(failed, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"secret": 1}`), 0o600))
	}
	if failed = errors.Join(failed, os.Symlink(secret, link)); failed != nil {
		t.Fatal(failed)
	}
	const source = `return { options = { options.path { "config", "x.yaml", "a config" } }, ranks = function(opt)
		config.load(opt.file) return 1 end, run = print }`
	read := func(a Access, options map[string]any, path string) error {
		r, err := Load("x.lua", strings.Replace(source, "opt.file", "[["+path+"]]", 1), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if !a.Repeated {
			a.Named = options
		}
		r.Permit(a)
		_, err = r.Ranks(options)
		return err
	}
	theirs := Access{Folder: filepath.Dir(scenario)}
	named := map[string]any{"config": config}
	for _, c := range []struct {
		name    string
		access  Access
		options map[string]any
		path    string
		ok      bool
	}{
		{"a file of the user's", theirs, named, secret, false},
		{"one upwards of the config", theirs, named, filepath.Dir(config) + "/../home/secret.json", false},
		{"one that a link beside the config leads to", theirs, named, link, false},
		{"the config", theirs, named, config, true},
		{"beside the config", theirs, named, beside, true},
		{"below the config", theirs, named, below, true},
		{"beside the scenario", theirs, named, filepath.Join(dir, "theirs", "own.json"), true},
		{"nothing is named", Access{}, map[string]any{}, config, false},
		{"beside a shipped scenario", Access{}, named, filepath.Join(dir, "theirs", "own.json"), false},
		{"named by a result", Access{Repeated: true}, map[string]any{"config": secret}, secret, false},
		{"any file is allowed", Access{AllowIO: true}, map[string]any{}, secret, true},
	} {
		err := read(c.access, c.options, c.path)
		if (err == nil) != c.ok || !c.ok && (fault.KindOf(err) != fault.Script || !strings.Contains(fault.HintOf(err), "--allow-io") || strings.Contains(err.Error(), "secret\"")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "configs", "away")); err != nil {
		t.Fatal(err)
	}
	// A message does not show what is there.
	missing := filepath.Join(home, "missing")
	there, gone := read(theirs, named, secret), read(theirs, named, missing)
	if there == nil || gone == nil || strings.ReplaceAll(gone.Error(), missing, secret) != there.Error() {
		t.Errorf("a file: %v; none: %v", there, gone)
	}
	for path, ok := range map[string]bool{secret: false, "/var/tmp/x": false, filepath.Join(dir, "configs", "new.bin"): true, filepath.Join(dir, "configs", "link.json"): false,
		filepath.Join(dir, "configs") + "/away/../new.bin": false} {
		r, err := Load("x.lua", source, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		r.Permit(Access{Named: named})
		if err := r.files.mayStore(map[int]load.StorageOp{3: {Path: path}}); (err == nil) != ok {
			t.Errorf("files of transfers at %s: %v", path, err)
		}
		r.Close()
	}
}

// Transfers make no files, and touch none, that the user has not named, whichever function asks for them.
func TestFilesOfTransfers(t *testing.T) {
	dir := t.TempDir()
	theirs, named := filepath.Join(dir, "theirs"), filepath.Join(dir, "named")
	there, precious := filepath.Join(theirs, "there"), bytes.Repeat([]byte("precious"), 512)
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.WriteFile(there, precious, 0o600)); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		r.Permit(Access{AllowIO: true})
		if _, err := r.Ranks(map[string]any{}); fault.KindOf(err) != fault.Input {
			t.Errorf("%s: %v", path, err)
		}
		r.Close()
	}
}

// A configuration that the user has named may name matrices anywhere, but nothing of their text comes out, and
// other readers do not take them.
func TestMatricesOfConfigurations(t *testing.T) {
	dir := t.TempDir()
	config, good, secret := filepath.Join(dir, "c", "c.yaml"), filepath.Join(dir, "m", "m.txt"), filepath.Join(dir, "m", "secret")
	failed := errors.Join(os.MkdirAll(filepath.Dir(config), 0o700), os.MkdirAll(filepath.Dir(good), 0o700),
		os.WriteFile(config, []byte("good: "+good+"\nsecret: "+secret+"\n"), 0o600),
		os.WriteFile(good, []byte("0 1\n1 0\n"), 0o600), os.WriteFile(secret, []byte("hunter2: x\n"), 0o600))
	if failed != nil {
		t.Fatal(failed)
	}
	const source = `local schema = { { name = "good", type = "path" }, { name = "secret", type = "path" } }
	return { options = { options.path { "config", "x.yaml", "a config" } }, ranks = function(opt)
		local c = config.load(opt.config, schema) CALL return 2 end, run = print }`
	for call, want := range map[string]string{
		"matrix.load(c.good)":        "",
		"matrix.load(c.secret)":      "no matrix",
		"config.load(c.good)":        "may not read",
		"matrix.load('/etc/passwd')": "may not read",
	} {
		r, err := Load("x.lua", strings.Replace(source, "CALL", call, 1), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]any{"config": config}
		r.Permit(Access{Named: named})
		_, err = r.Ranks(named)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", call, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q without the file's text", call, err, want)
		}
		r.Close()
	}
}
