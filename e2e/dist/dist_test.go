// Package dist tests what `make dist` makes: each package is installed into
// its own root, and the program in it plays a scenario.
package dist

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// made is the folder that packaging/dist has filled.
var made string

func TestMain(m *testing.M) {
	os.Exit(mainCode(m))
}

func mainCode(m *testing.M) int {
	dir, err := os.MkdirTemp("", "perigee-dist-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	made = filepath.Join(dir, "out")
	cmd := exec.Command("../../packaging/dist", made)
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "packaging/dist: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// one returns the only file of the distribution that fits a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(made, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %v, %v; want one", pattern, found, err)
	}
	return found[0]
}

// run runs a command and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	if !strings.Contains(name, "/") {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("this test needs %s: run `make test`, which installs it", name)
		}
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestPackages(t *testing.T) {
	for name, install := range map[string]func(t *testing.T, root string){
		"deb": func(t *testing.T, root string) {
			run(t, "dpkg-deb", "--extract", one(t, "*.deb"), root)
			if depends := run(t, "dpkg-deb", "--field", one(t, "*.deb"), "Depends"); depends != "libc6\n" {
				t.Errorf("the .deb depends on %q", depends)
			}
		},
		"rpm": func(t *testing.T, root string) {
			run(t, "rpm", "--root", root, "--nodeps", "--noscripts", "--install", one(t, "*.rpm"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			install(t, root)
			usr := filepath.Join(root, "usr")
			try(t, filepath.Join(usr, "bin/perigee"))
			for _, file := range []string{
				"share/man/man1/perigee.1.gz", "share/man/man1/perigee-ct-perftest.1.gz",
				"share/bash-completion/completions/perigee", "share/doc/perigee/README.md",
				"share/doc/perigee/meta/world.lua",
			} {
				if _, err := os.Stat(filepath.Join(usr, file)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestTarball(t *testing.T) {
	root := t.TempDir()
	run(t, "tar", "-xzf", one(t, "*.tar.gz"), "-C", root, "--strip-components=1")
	try(t, filepath.Join(root, "bin/perigee"))
	if page := run(t, "zcat", filepath.Join(root, "man/perigee-run.1.gz")); !strings.Contains(page, ".TH ") {
		t.Errorf("perigee-run.1 is no manual page:\n%s", page)
	}
}

// try plays a scenario with an installed program.
func try(t *testing.T, perigee string) {
	t.Helper()
	if v := run(t, perigee, "version"); !strings.HasPrefix(v, "perigee ") || strings.Contains(v, "unknown") {
		t.Errorf("version: %q", v)
	}
	if out := run(t, perigee, "run", "-n", "2", "--engine", "shm", "alltoall"); !strings.Contains(out, "2 ranks") {
		t.Errorf("alltoall printed\n%s", out)
	}
}

func TestChecksums(t *testing.T) {
	cmd := exec.Command("sha256sum", "--strict", "-c", "SHA256SUMS")
	cmd.Dir = made
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), ": OK\n") != 5 {
		t.Errorf("%v\n%s", err, out)
	}
}

// The bill of materials names each module that the program was linked with.
func TestBillOfMaterials(t *testing.T) {
	data := must.Read(t, one(t, "*.cdx.json"))
	var bom struct {
		BOMFormat  string
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(data, &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("format %q, %v", bom.BOMFormat, err)
	}
	found := map[string]bool{}
	for _, c := range bom.Components {
		if c.Version == "" || c.PURL != "pkg:golang/"+c.Name+"@"+c.Version {
			t.Errorf("component %+v", c)
		}
		found[c.Name] = true
	}
	for _, want := range []string{"std", "github.com/yuin/gopher-lua", "github.com/klauspost/compress"} {
		if !found[want] {
			t.Errorf("%s is missing", want)
		}
	}
}
