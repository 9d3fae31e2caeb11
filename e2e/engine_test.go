package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/result"
)

// unusable is a NIXL library with which nothing can be done.
type unusable struct {
	name   string
	lib    string
	env    map[string]string
	wanted []string
}

// unusables makes the libraries in a fresh folder.
func unusables(t *testing.T) []unusable {
	t.Helper()
	dir := files(t, map[string]string{
		"rubbish.so": "this is no library\n",
		"old.c":      "int nixl_capi_create_agent(void) { return 0; }\n",
		"empty/x":    "",
	})
	old := filepath.Join(dir, "old.so")
	if out, err := exec.Command("gcc", "-shared", "-o", old, filepath.Join(dir, "old.c")).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	none := map[string]string{"NIXL_PLUGIN_DIR": filepath.Join(dir, "empty")}
	return []unusable{
		{"missing", "/nonexistent", nil, []string{"/nonexistent", "neither libnixl_capi.so nor a folder that has it", "hint: ", "pip install nixl-cu12"}},
		{"an empty folder", filepath.Join(dir, "empty"), nil, []string{"neither libnixl_capi.so nor a folder that has it"}},
		{"no library", filepath.Join(dir, "rubbish.so"), nil, []string{"rubbish.so", "NIXL does not load"}},
		{"too old", old, nil, []string{"old.so", "too old", "nixl_capi_", "hint: perigee knows the NIXL versions"}},
		{"without UCX", needNIXL(t), none, []string{"no UCX plugin", none["NIXL_PLUGIN_DIR"], "hint: check NIXL_PLUGIN_DIR"}},
	}
}

// A NIXL that cannot be used is an error where the user wants NIXL.
func TestUnusableNIXL(t *testing.T) {
	for _, u := range unusables(t) {
		for _, engine := range []string{"nixl", "auto"} {
			t.Run(u.name+" "+engine, func(t *testing.T) {
				t.Parallel()
				c := command{env: u.env, args: []string{"run", "pingpong", "--engine", engine, "--nixl-lib", u.lib, "--result", "r.json"}}
				p := start(t, c)
				o := p.wait(patience)
				checkComplaint(t, o, fault.Engine, u.wanted...)
				if left := names(p.dir); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				for line := range strings.Lines(o.stderr) {
					if len(line) > 600 {
						t.Errorf("a message of %d letters: %s", len(line), line)
					}
				}
			})
		}
	}
}

// Where the user leaves the choice to perigee, it takes shm and says why.
func TestAutoWithoutNIXL(t *testing.T) {
	for _, u := range unusables(t) {
		if u.env != nil {
			continue // this one loads, so that auto takes it
		}
		t.Run(u.name, func(t *testing.T) {
			p := start(t, command{env: map[string]string{"NIXL_LIBRARY": u.lib}, args: []string{"run", "pingpong", "--result", "r.json"}})
			o := p.wait(patience)
			if o.code != 0 {
				t.Fatalf("exit code %d: %s", o.code, o.stderr)
			}
			contains(t, "stdout", o.stdout, "# engine: shm ", "# note: shm instead of nixl: ")
			doc, err := result.Read(filepath.Join(p.dir, "r.json"))
			if err != nil || doc.Engine.Name != "shm" || !strings.Contains(strings.Join(doc.Notes, "\n"), "shm instead of nixl") {
				t.Errorf("%v, notes %q", err, doc.Notes)
			}
		})
	}
}

// With the library in NIXL_LIBRARY, as a file or as its folder, auto is NIXL.
func TestAutoWithNIXL(t *testing.T) {
	lib := needNIXL(t)
	for _, named := range []string{lib, filepath.Dir(lib)} {
		for how, c := range map[string]command{
			"variable": {env: map[string]string{"NIXL_LIBRARY": named}, args: []string{"run", "alltoall", "-n", "2"}},
			"flag":     {env: map[string]string{"NIXL_LIBRARY": ""}, args: []string{"run", "alltoall", "-n", "2", "--nixl-lib", named}},
		} {
			o := start(t, c).wait(patience)
			if o.code != 0 || !strings.Contains(o.stdout, "# engine: nixl ") || !strings.Contains(o.stdout, "backend UCX") {
				t.Errorf("%s %s: exit code %d\n%s%s", how, named, o.code, o.stdout, o.stderr)
			}
		}
	}
}

// The disk is full when the result is to be written: an error that says so,
// whichever of the two files it is, and nothing half-written.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct{ name, flag, file string }{
		{"result", "--result", "full/r.json"},
		{"compressed result", "--result", "full/r.json.zst"},
		{"JSON", "--json-output-path", "full/o.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := files(t, map[string]string{"c.yaml": pattern(), "m.txt": good, "full/x": ""})
			fill(t, filepath.Join(dir, "full"))
			o := perigee(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", "shm", c.flag, c.file)
			checkComplaint(t, o, fault.Output, "cannot write "+c.file, "no space left on device")
			if left := names(filepath.Join(dir, "full")); fmt.Sprint(left) != "[filler]" {
				t.Errorf("in the folder: %q", left)
			}
			// The measurement was not for nothing: its table is there, all of it.
			if c.flag == "--result" {
				readTable(t, o.stdout, columns...)
			}
		})
	}
}

// fill puts a small file system over a folder and fills it.
func fill(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small file system here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	// A new file gets a name, but no contents.
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<10), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A device that is always full needs no root.
func TestFullDevice(t *testing.T) {
	dir := files(t, map[string]string{"c.yaml": pattern(), "m.txt": good})
	for _, c := range [][2]string{{"--result", "r.json"}, {"--json-output-path", "o.json"}} {
		if err := os.Symlink("/dev/full", filepath.Join(dir, c[1])); err != nil {
			t.Fatal(err)
		}
		o := perigee(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", "shm", c[0], c[1])
		checkComplaint(t, o, fault.Output, "cannot write "+c[1], "no space left on device")
	}
}
