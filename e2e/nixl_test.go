package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// The users of the tests: an ordinary one, and the account that installs a site's software.
const ordinaryUser, siteAccount = 65534, 65533

// asOrdinaryUser is a command of perigee that an ordinary user starts in that user's folder. Without root's rights the
// tests are an ordinary user's already.
func asOrdinaryUser(t *testing.T, env []string, args ...string) harness.Command {
	t.Helper()
	c := harness.Command{Dir: t.TempDir(), Env: append([]string{"NIXL_LIBRARY=", "HOME=" + t.TempDir()}, env...),
		Argv: append([]string{harness.Program}, args...)}
	if os.Geteuid() != 0 {
		return c
	}
	harness.Need(t, "util-linux", "setpriv")
	c.Argv = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, c.Argv...)
	err := os.Chown(c.Dir, ordinaryUser, ordinaryUser)
	for _, dir := range []string{harness.Home, filepath.Join(harness.Home, "tmp"), filepath.Dir(c.Dir)} {
		err = errors.Join(err, os.Chmod(dir, 0o711)) // the way to what the user needs
	}
	must.Do(t, err)
	return c
}

// siteInstallation is a virtual environment with NIXL that belongs to a site's software account.
func siteInstallation(t *testing.T) (venv, library string) {
	t.Helper()
	original := harness.NeedNIXL(t)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // the folders of subtests are elsewhere
		t.Fatal(err)
	}
	venv = filepath.Join(dir, "venv")
	packages := filepath.Join(venv, "lib/python3.11/site-packages")
	must.Do(t, os.MkdirAll(packages, 0o755))
	wheel := filepath.Dir(original)
	for _, dir := range []string{wheel, filepath.Join(filepath.Dir(wheel), "nixl_cu12.libs")} {
		if out, err := exec.Command("cp", "-r", dir, packages).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	changeFolders(t, venv, 0o755)
	return venv, filepath.Join(packages, filepath.Base(wheel), filepath.Base(original))
}

// changeFolders gives a tree to the site's software account, and its folders a mode.
func changeFolders(t *testing.T, root string, mode os.FileMode) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && os.Geteuid() == 0 {
			err = os.Lchown(path, siteAccount, siteAccount)
		}
		if err == nil && d.IsDir() {
			err = os.Chmod(path, mode)
		}
		return err
	})
	must.Do(t, err)
}

// NIXL that a site's software account has installed is taken, wherever the user's environment names it.
func TestNIXLOfASite(t *testing.T) {
	venv, library := siteInstallation(t)
	modules := t.TempDir()
	link := filepath.Join(modules, filepath.Base(library))
	must.Do(t, os.Symlink(library, link))
	for name, mode := range map[string]os.FileMode{"0755": 0o755, "2775": os.ModeSetgid | 0o775} {
		changeFolders(t, venv, mode)
		for how, env := range map[string]string{
			"VIRTUAL_ENV":                     "VIRTUAL_ENV=" + venv,
			"LD_LIBRARY_PATH":                 "LD_LIBRARY_PATH=" + filepath.Dir(library),
			"LD_LIBRARY_PATH with a link":     "LD_LIBRARY_PATH=/nowhere:" + modules,
			"NIXL_LIBRARY":                    "NIXL_LIBRARY=" + library,
			"NIXL_LIBRARY, a link":            "NIXL_LIBRARY=" + link,
			"NIXL_LIBRARY, a link's folder":   "NIXL_LIBRARY=" + modules,
			"NIXL_LIBRARY, the site-packages": "NIXL_LIBRARY=" + filepath.Dir(filepath.Dir(library)),
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				o := harness.Start(t, asOrdinaryUser(t, []string{env}, "run", "alltoall", "-n", "2", "--iters", "1")).Wait()
				if o.Code != 0 {
					t.Errorf("exit code %d: %s", o.Code, o.Stderr)
				}
				harness.Contains(t, "stdout", o.Stdout, "# engine: nixl ", "backend UCX")
			})
		}
	}
}

// UCX reads ucx.conf in the current folder.
func TestOwnUCXSettings(t *testing.T) {
	_, library := siteInstallation(t)
	env := []string{"NIXL_LIBRARY=" + library, "UCX_LOG_LEVEL=info"}
	c := asOrdinaryUser(t, env, "run", "alltoall", "-n", "2", "--iters", "1")
	must.Do(t, os.WriteFile(filepath.Join(c.Dir, "ucx.conf"), []byte("UCX_LOG_FILE=ucx.log\n"), 0o644))
	o := harness.Start(t, c).Wait()
	if o.Code != 0 {
		t.Errorf("exit code %d: %s", o.Code, o.Stderr)
	}
	harness.Contains(t, "stdout", o.Stdout, "# engine: nixl ")
	if _, err := os.Stat(filepath.Join(c.Dir, "ucx.log")); err != nil {
		t.Error("UCX has not written the log that ucx.conf names:", err)
	}
}
