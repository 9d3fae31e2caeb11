package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// unusable is a NIXL library with which nothing can be done.
type unusable struct {
	name   string
	lib    string
	env    []string
	wanted []string
}

// unusables makes the libraries in a fresh folder.
func unusables(t *testing.T) []unusable {
	t.Helper()
	dir := harness.Files(t, map[string]string{
		"rubbish.so": "this is no library\n",
		"old.c":      "int nixl_capi_create_agent(void) { return 0; }\n",
		"empty/x":    "",
	})
	old := filepath.Join(dir, "old.so")
	if out, err := exec.Command("gcc", "-shared", "-o", old, filepath.Join(dir, "old.c")).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	empty := filepath.Join(dir, "empty")
	return []unusable{
		{"missing", "/nonexistent", nil, []string{"/nonexistent", "neither libnixl_capi.so nor a folder that has it", "hint: ", "pip install nixl-cu12"}},
		{"an empty folder", filepath.Join(dir, "empty"), nil, []string{"neither libnixl_capi.so nor a folder that has it"}},
		{"no library", filepath.Join(dir, "rubbish.so"), nil, []string{"rubbish.so", "NIXL does not load"}},
		{"too old", old, nil, []string{"old.so", "too old", "nixl_capi_", "hint: perigee knows the NIXL versions"}},
		{"without UCX", harness.NeedNIXL(t), []string{"NIXL_PLUGIN_DIR=" + empty}, []string{"no UCX plugin", empty, "hint: check NIXL_PLUGIN_DIR"}},
	}
}

// A NIXL that cannot be used is an error where the user wants NIXL.
func TestUnusableNIXL(t *testing.T) {
	for _, u := range unusables(t) {
		for _, engine := range []string{"nixl", "auto"} {
			t.Run(u.name+" "+engine, func(t *testing.T) {
				t.Parallel()
				c := harness.Command{Env: u.env, Args: []string{"run", "pingpong", "--engine", engine, "--nixl-lib", u.lib, "--result", "r.json"}}
				p := harness.Start(t, c)
				o := p.Wait()
				checkComplaint(t, o, fault.Engine, u.wanted...)
				if left := harness.Names(p.Dir); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				for line := range strings.Lines(o.Stderr) {
					if len(line) > 600 {
						t.Errorf("a message of %d letters: %s", len(line), line)
					}
				}
			})
		}
	}
}

// Where the user leaves the choice to perigee, it takes shm and says why. It warns where the user has named a library,
// in a line of the header and in the result.
func TestAutoWithoutNIXL(t *testing.T) {
	for _, u := range unusables(t) {
		if u.env != nil {
			continue // this one loads, so that auto takes it
		}
		t.Run(u.name, func(t *testing.T) {
			p := harness.Start(t, harness.Command{Env: []string{"NIXL_LIBRARY=" + u.lib}, Args: []string{"run", "pingpong", "--result", "r.json"}})
			o := p.Wait()
			if o.Code != 0 {
				t.Fatalf("exit code %d: %s", o.Code, o.Stderr)
			}
			harness.Contains(t, "stdout", o.Stdout, "# engine: shm ", "\n# WARNING: shm instead of nixl: ")
			doc, err := result.Read(filepath.Join(p.Dir, "r.json"))
			if err != nil || doc.Engine.Name != "shm" || !strings.Contains(strings.Join(doc.Notes, "\n"), "WARNING: shm instead of nixl: ") {
				t.Errorf("%v, notes %q", err, doc.Notes)
			}
		})
	}
}

// With the library in NIXL_LIBRARY, as a file or as its folder, auto is NIXL.
func TestAutoWithNIXL(t *testing.T) {
	lib := harness.NeedNIXL(t)
	for _, named := range []string{lib, filepath.Dir(lib)} {
		for how, c := range map[string]harness.Command{
			"variable": {Env: []string{"NIXL_LIBRARY=" + named}, Args: []string{"run", "alltoall", "-n", "2"}},
			"flag":     {Env: []string{"NIXL_LIBRARY="}, Args: []string{"run", "alltoall", "-n", "2", "--nixl-lib", named}},
		} {
			o := harness.Start(t, c).Wait()
			if o.Code != 0 || !strings.Contains(o.Stdout, "# engine: nixl ") || !strings.Contains(o.Stdout, "backend UCX") {
				t.Errorf("%s %s: exit code %d\n%s%s", how, named, o.Code, o.Stdout, o.Stderr)
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
			dir := harness.Files(t, map[string]string{"c.yaml": pattern(), "m.txt": good, "full/x": ""})
			harness.Fill(t, filepath.Join(dir, "full"))
			o := harness.Run(t, dir, "sequential-ct-perftest", "c.yaml", "--engine", "shm", c.flag, c.file)
			checkComplaint(t, o, fault.Output, "cannot write "+c.file, "no space left on device")
			if left := harness.Names(filepath.Join(dir, "full")); fmt.Sprint(left) != "[filler]" {
				t.Errorf("in the folder: %q", left)
			}
			// The measurement was not for nothing: its table is there, all of it.
			if c.flag == "--result" {
				readTable(t, o.Stdout, columns...)
			}
		})
	}
}

// sockets counts the sockets of a process that accept connections.
func sockets(t *testing.T, pid int) (count int) {
	t.Helper()
	own := map[string]bool{}
	dir := fmt.Sprintf("/proc/%d/", pid)
	files, err := os.ReadDir(dir + "fd")
	must.Do(t, err)
	for _, f := range files {
		if target, err := os.Readlink(dir + "fd/" + f.Name()); err == nil {
			own[target] = true
		}
	}
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		table, _ := os.ReadFile(dir + name) // a kernel may lack IPv6
		for line := range strings.Lines(string(table)) {
			// sl local_address remote_address state ... inode
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && own["socket:["+f[9]+"]"] {
				count++
			}
		}
	}
	return count
}

// Ranks of one host listen at one socket each, perigee's own, which asks for the secret. UCX has one more where the
// user wants TCP, or where /dev/shm cannot be used, which a note says.
func TestListenersInsideAHost(t *testing.T) {
	const source = `return { run = function()
  local plan = transfer.prepare{ matrix = matrix.all_to_all{ bytes = 65536 } }
  plan:fill()
  plan:run()
  plan:check()
  world.barrier()
  print("moved")
  clock.sleep(3600)
end }`
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name string
		env  []string
		want int
		said []string
	}{
		{"default", nil, 1, []string{", tls ^sysv,tcp"}},
		{"TCP", []string{"UCX_TLS=tcp,self"}, 2, []string{"UCX_TLS tcp,self"}},
		{"no shared memory", []string{"UCX_POSIX_DIR=" + missing}, 2, []string{"# note: UCX uses TCP inside the host, which is slower, and listens to every user of it: " +
			"UCX cannot make files in " + missing + " (no such file or directory); give /dev/shm more room", "tls ^sysv,posix", "progress thread"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := harness.Files(t, map[string]string{"s.lua": source})
			env := append([]string{"NIXL_LIBRARY=" + harness.NeedNIXL(t), "UCX_TLS=", "UCX_NET_DEVICES="}, c.env...)
			p := harness.Start(t, harness.Command{Dir: dir, Env: env, Args: []string{"run", "s.lua", "-n", "2", "--engine", "nixl"}})
			p.UntilPrints("\nmoved\n", "[1] moved\n")
			for rank, pid := range p.Ranks() {
				if got := sockets(t, pid); got != c.want {
					t.Errorf("rank %d listens at %d sockets, want %d\n%s", rank, got, c.want, p.Stdout)
				}
			}
			harness.Contains(t, "stdout", p.Stdout.String(), c.said...)
		})
	}
}
