package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// Files are removed even after kill -9 of the rank that made them, and only those that perigee made.
func TestKVBenchKilled(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, where := range []string{"folder", "new", "there"} {
			dir := harness.Files(t, map[string]string{"folder/x": "", "there": strings.Repeat("y", 64<<10)})
			p := harness.Start(t, harness.Command{Dir: dir, Args: []string{
				"run", "kvbench", "--engine", engine, "-n", "2", "--backend", "POSIX", "--filepath", where, "--overwrite",
				"--max_block_size", "4K", "--start_batch_size", "8", "--max_batch_size", "8", "--num_iter", "2000000000",
			}})
			p.UntilPrints("# note: kvbench: ")
			must.Do(t, syscall.Kill(p.Rank(1), syscall.SIGKILL))
			checkComplaint(t, p.Wait(), fault.RankLost, "rank 1")
			p.CheckNothingLeft(harness.Patience)
			if left := fmt.Sprint(harness.Names(dir), harness.Names(filepath.Join(dir, "folder"))); left != "[folder there] [x]" {
				t.Errorf("%s: left behind: %s", where, left)
			}
			if info, err := os.Stat(filepath.Join(dir, "there")); err != nil || info.Size() != 64<<10 {
				t.Errorf("%s: the user's own file: %v, %v", where, info, err)
			}
		}
	})
}

// The disk is full, or too small for all that is wanted: an error that names the file, what it needs and what there is,
// before anything is measured, and nothing half-written.
func TestKVBenchFullDisk(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"full/x": "", "small/x": ""})
		harness.Fill(t, filepath.Join(dir, "full"))
		harness.Mount(t, "tmpfs", filepath.Join(dir, "small"), "size=1m")
		for _, c := range []struct {
			args   []string
			wanted []string
		}{
			{[]string{"--filepath", "full", "-n", "2"}, []string{"making file full/perigee-", " of 64.0 MiB: no space left on device: 0 B are free"}},
			{[]string{"--filepath", "small"}, []string{"making file small/perigee-0-0-0 of 64.0 MiB: no space left on device: 1.0 MiB are free"}},
			// Each has room, but not all together.
			{[]string{"--filepath", "small", "--max_block_size", "256K", "--num_files", "5"}, []string{"making file small/perigee-0-0-", " of 256.0 KiB: no space left on device: "}},
			{[]string{"--filepath", "small/holes", "--overwrite", "--max_block_size", "2M"}, []string{"file small/holes: 2.0 MiB of it were never written", "no space left on device: 1.0 MiB are free"}},
		} {
			must.Do(t, os.WriteFile(filepath.Join(dir, "small", "holes"), nil, 0o644))
			must.Do(t, os.Truncate(filepath.Join(dir, "small", "holes"), 4<<20))
			o := harness.Run(t, dir, append([]string{"run", "kvbench", "--engine", engine, "--backend", "POSIX"}, c.args...)...)
			checkComplaint(t, o, fault.Resource, append(c.wanted, "phase prepare", "hint: ")...)
			if strings.Contains(o.Stdout, "Block Size") {
				t.Errorf("something was measured:\n%s", o.Stdout)
			}
			if left := fmt.Sprint(harness.Names(filepath.Join(dir, "full")), harness.Names(filepath.Join(dir, "small"))); left != "[filler] [holes]" {
				t.Errorf("in the folders: %s", left)
			}
		}
	})
}

// The file system has no direct I/O.
func TestKVBenchNoDirect(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"ram/x": ""})
		harness.Mount(t, "ramfs", filepath.Join(dir, "ram"), "")
		o := harness.Run(t, dir, "run", "kvbench", "--engine", engine, "--backend", "POSIX", "--filepath", "ram", "--storage_enable_direct", "--max_block_size", "4K")
		checkComplaint(t, o, fault.Resource, "file ram/perigee-0-0-0: its file system refuses direct I/O", "hint: ")
		if left := harness.Names(filepath.Join(dir, "ram")); len(left) > 0 {
			t.Errorf("in the folder: %q", left)
		}
	})
}

// Files and folders that this user may not use. Root may everything, but not without its capabilities.
func TestKVBenchForbidden(t *testing.T) {
	harness.Need(t, "util-linux", "setpriv")
	harness.ForEngines(t, func(t *testing.T, engine string) {
		dir := harness.Files(t, map[string]string{"secret": "0123456789", "folder/x": ""})
		for name, mode := range map[string]os.FileMode{"secret": 0, "folder": 0o555} {
			must.Do(t, os.Chmod(filepath.Join(dir, name), mode))
		}
		for _, c := range []struct {
			args   []string
			wanted string
		}{
			{[]string{"--filepath", "secret", "--op_type", "READ"}, "open secret: permission denied"},
			{[]string{"--filepath", "secret", "--overwrite"}, "open secret: permission denied"},
			{[]string{"--filepath", "folder"}, "folder/perigee-0-0-0: permission denied"},
		} {
			argv := append([]string{
				"setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", harness.Program,
				"run", "kvbench", "--engine", engine, "--backend", "POSIX", "--start_block_size", "4", "--max_block_size", "4",
			}, c.args...)
			checkComplaint(t, harness.Start(t, harness.Command{Dir: dir, Argv: argv}).Wait(), fault.Input, c.wanted)
		}
	})
}
