package lua

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/traffic/load"
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
	for _, path := range []string{secret, scenario, config, beside, below, filepath.Join(dir, "theirs", "own.json")} {
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
	for path, ok := range map[string]bool{secret: false, "/var/tmp/x": false, filepath.Join(dir, "configs", "new.bin"): true, filepath.Join(dir, "configs", "link.json"): false} {
		r, err := Load("x.lua", source, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		r.files.grant(r.Options, named)
		if err := r.files.mayStore(map[int]load.StorageOp{3: {Path: path}}); (err == nil) != ok {
			t.Errorf("files of transfers at %s: %v", path, err)
		}
		r.Close()
	}
}

// A matrix is a regular file: a pipe or a device might never end.
func TestMatricesAreFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", dir} {
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
		r.Permit(Access{})
		_, err = r.Ranks(map[string]any{"config": config})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", call, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q without the file's text", call, err, want)
		}
		r.Close()
	}
}
