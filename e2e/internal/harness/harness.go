package harness

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	// Home is the folder of the package's tests, gone after them.
	Home string
	// Program is the perigee under test.
	Program string
	// Token is carried by all processes of the package's tests. The token of a
	// [Process] begins with it.
	Token string
)

// Main builds perigee and runs the tests of a package. It returns the exit code
// for os.Exit.
func Main(m *testing.M) int {
	if order := os.Getenv(envGuard); order != "" {
		return guard(order)
	}
	stop, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
		return 1
	}
	return code
}

// prepare makes the folder of the tests, starts the guard, and builds perigee. The guard comes before anything that
// could be left behind.
func prepare() (stop func() error, err error) {
	if Home, err = os.MkdirTemp("", "perigee-e2e-"); err != nil {
		return nil, err
	}
	Token = rand.Text()
	if stop, err = startGuard(Token, Home); err != nil {
		os.RemoveAll(Home)
		return nil, err
	}
	// What tests, launchers and libraries put among the temporary files is found
	// here, and nothing of anybody else.
	temporary := filepath.Join(Home, "tmp")
	err = os.Mkdir(temporary, 0o700)
	if err == nil {
		os.Setenv("TMPDIR", temporary)
		err = build()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func build() error {
	Program = filepath.Join(Home, "perigee")
	args := []string{"build", "-o", Program}
	if RaceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "perigee")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// LookAtSources makes the program's sources inputs of a test as far as the go
// command sees it, so that it does not repeat an old verdict on a new program.
// It notes what tests look at, not what TestMain does. [Start] does it by itself.
func LookAtSources(t testing.TB) {
	t.Helper()
	if err := lookAtSources(); err != nil {
		t.Fatal(err)
	}
}

var lookAtSources = sync.OnceValue(func() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if slices.Contains([]string{".go", ".c", ".h", ".lua", ".mod", ".sum"}, filepath.Ext(path)) {
			_, err = os.Stat(path)
		}
		return err
	})
})

// moduleRoot is the folder of go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", fmt.Errorf("there is no go.mod above the tests")
		}
		dir = above
	}
}
