package experiment

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/spmd"
)

// measured is an experiment that has measured something.
func measured(path string) *Experiment {
	worlds, _ := spmd.NewInMemory(1)
	e := Begin(Config{World: worlds[0], File: path})
	e.Doc.Values = map[string]any{"x": 1}
	return e
}

// A reader of a pipe gets one result, not every state of it.
func TestNoCheckpointsIntoPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must.Do(t, err)
	defer pipe.Close()
	measured(path).Checkpoint()
	if data, err := io.ReadAll(pipe); len(data) > 0 || err != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// A checkpoint that fails is not tried again at once.
func TestCheckpointsAreSpaced(t *testing.T) {
	for _, folder := range []string{t.TempDir(), "/proc"} {
		k := measured(filepath.Join(folder, "r.json"))
		before := time.Now()
		k.Checkpoint()
		first := &checkpoints{last: k.saved.last, took: k.saved.took}
		if first.last.Before(before) || first.took <= 0 {
			t.Errorf("%s: %+v", folder, first)
		}
		k.saved.took = time.Hour
		k.Checkpoint()
		if k.saved.last != first.last {
			t.Errorf("%s: another checkpoint at once", folder)
		}
	}
}

// Two jobs with one name for their results both keep them.
func TestTwoJobsWithOneResult(t *testing.T) {
	for _, ending := range []string{".json", ".json.zst"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "r"+ending)
		var outs [3]bytes.Buffer
		var jobs [3]*Experiment
		for i := range jobs {
			jobs[i] = measured(path)
			jobs[i].Out, jobs[i].Doc.Seed = &outs[i], uint64(i)
		}
		for _, k := range jobs[1:] { // what they have on the way is in no one's way
			k.Checkpoint()
			k.saved = checkpoints{}
			k.Checkpoint()
		}
		for i, k := range jobs {
			if err := k.Finish(); err != nil {
				t.Fatal(i, err)
			}
		}
		for i, name := range []string{"r" + ending, "r-2" + ending, "r-3" + ending} {
			d, err := result.Read(filepath.Join(dir, name))
			if err != nil || d.Seed != uint64(i) {
				t.Errorf("%s: %v, %+v, want the result of job %d", name, err, d, i)
			}
			said, noted := outs[i].String(), strings.Contains(outs[i].String(), "another has written "+path)
			if !strings.Contains(said, "# result: "+filepath.Join(dir, name)+"\n") || noted != (i != 0) {
				t.Errorf("job %d said %q", i, said)
			}
		}
		if files, _ := os.ReadDir(dir); len(files) != len(jobs) {
			t.Errorf("%d files are there, wanted %d", len(files), len(jobs))
		}
	}
}

// What others put at the place of a result while the job runs costs it nothing, whatever it is, nor if they have removed
// what the job had saved beside it.
func TestForeignThingsAtTheResult(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":   func(path string) error { return os.Symlink("nowhere/at/all", path) },
	} {
		for _, saved := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "r.json")
			var out bytes.Buffer
			k := measured(path)
			k.Out = &out
			if saved {
				k.Checkpoint()
				must.Do(t, os.Remove(path+result.PartEnding))
			}
			must.Do(t, put(path))
			err := k.Finish()
			if _, read := result.Read(strings.TrimSuffix(path, ".json") + "-2.json"); err != nil || read != nil {
				t.Errorf("a %s, saved before: %v: %v; the result: %v", what, saved, err, read)
			}
			if !strings.Contains(out.String(), "another has written "+path) {
				t.Errorf("a %s, saved before: %v: said %q", what, saved, &out)
			}
		}
	}
}

// Jobs that end, save or fail at the same moment keep all their results, each under the name that it reports.
func TestManyJobsWithOneResult(t *testing.T) {
	const jobs = 16
	path := filepath.Join(t.TempDir(), "r.json.zst")
	var outs [jobs]bytes.Buffer
	var all sync.WaitGroup
	start := make(chan bool)
	for i := range jobs {
		k := measured(path)
		k.Out, k.Doc.Seed = &outs[i], uint64(i)
		all.Go(func() {
			<-start
			if i%4 == 1 {
				k.Checkpoint()
			}
			if i%4 == 2 {
				k.Save(fault.New(fault.Timeout, "too late"), &outs[i])
			} else if err := k.Finish(); err != nil {
				t.Error(i, err)
			}
		})
	}
	close(start)
	all.Wait()
	for i := range outs {
		_, name, _ := strings.Cut(outs[i].String(), "result: ")
		name = strings.TrimSpace(name)
		if d, err := result.Read(name); err != nil || d.Seed != uint64(i) {
			t.Errorf("job %d said %q: %v, wanted its result there", i, &outs[i], err)
		}
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != jobs {
		t.Errorf("%d files, wanted %d", len(files), jobs)
	}
}

// A launcher adds the failure to the result of no other job than this.
func TestExplainPartial(t *testing.T) {
	for job, explained := range map[string]bool{"mine": true, "another": false, "": false} {
		path := filepath.Join(t.TempDir(), "r.json")
		k := measured(path)
		k.Doc.Job = &result.Invocation{ID: job}
		k.Checkpoint()
		var said bytes.Buffer
		ExplainPartial(path, "mine", fault.New(fault.RankLost, "rank 0 was killed"), &said)
		d, err := result.Read(path)
		if err != nil || (d.Failure != nil) != explained || (said.Len() > 0) != explained {
			t.Errorf("the result of the job %q: %v, %+v, said %q", job, err, d.Failure, &said)
		}
		if _, err := os.Stat(path + result.PartEnding); (err == nil) == explained {
			t.Errorf("the journal of the job %q: %v", job, err)
		}
	}
}

// What finds no room when the job is ended is reported with the cause, and so is the file that stays.
func TestLastPartFindsNoRoom(t *testing.T) {
	small := t.TempDir()
	if err := unix.Mount("none", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small disk needs the capability CAP_SYS_ADMIN: %v", err)
	}
	path := filepath.Join(small, "r.json")
	k := measured(path)
	t.Cleanup(func() {
		k.journal.Close()
		unix.Unmount(small, 0)
	})
	k.Checkpoint()
	k.Doc.Values["much"] = strings.Repeat("x", 1<<17)
	var said bytes.Buffer
	k.Save(fault.New(fault.Interrupt, "ended by signal: terminated"), &said)
	want := "perigee: partial result: its last part is lost: cannot write " + path + ": no space left on device\nperigee: partial result: " + path + ".part\n"
	if said.String() != want {
		t.Errorf("said\n%swant\n%s", &said, want)
	}
}

// A job that is ended when its result is complete fails, and says that the result is none the worse for it.
func TestFailureAfterTheResult(t *testing.T) {
	killed := fault.New(fault.RankLost, "rank 1 was killed")
	for _, tt := range []struct {
		job     string
		failure error
		says    string
	}{
		{"mine", killed, "perigee: the job failed when its result was complete: PATH\n"},
		{"mine", fault.New(fault.Threshold, "a threshold is not met"), ""}, // says so itself
		{"another", killed, ""},
	} {
		path := filepath.Join(t.TempDir(), "r.json")
		k := measured(path)
		k.Out, k.Doc.Job = io.Discard, &result.Invocation{ID: tt.job}
		must.Do(t, k.Finish())
		var launcher, rank bytes.Buffer
		ExplainPartial(path, "mine", tt.failure, &launcher)
		if got := strings.ReplaceAll(launcher.String(), path, "PATH"); got != tt.says {
			t.Errorf("job %s, %v: the launcher said %q, want %q", tt.job, tt.failure, got, tt.says)
		}
		k.Save(tt.failure, &rank)
		if (rank.Len() > 0) != broken(tt.failure) {
			t.Errorf("%v: the rank said %q", tt.failure, &rank)
		}
		if d, err := result.Read(path); err != nil || d.Status != result.Complete {
			t.Errorf("%v: %v, %+v, want the complete result", tt.failure, err, d)
		}
	}
}

// A result of an earlier run is replaced.
func TestEarlierResultIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	for seed := range uint64(2) {
		k := measured(path)
		k.Out, k.Doc.Seed = io.Discard, seed
		must.Do(t, k.Finish())
		if d, err := result.Read(path); err != nil || d.Seed != seed {
			t.Errorf("run %d: %v, %+v", seed, err, d)
		}
	}
}

// A run that is stopped before it has measured anything leaves the result of an earlier one.
func TestEarlierResultStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	k := measured(path)
	k.Out, k.Doc.Seed = io.Discard, 7
	must.Do(t, k.Finish())
	var said bytes.Buffer
	k = measured(path)
	k.Doc.Values = nil
	k.Save(fault.New(fault.Interrupt, "stopped"), &said)
	if d, err := result.Read(path); err != nil || d.Seed != 7 || d.Status != result.Complete {
		t.Errorf("%v, %+v, want the complete result of the earlier run", err, d)
	}
	if want := "perigee: nothing was measured; " + path + " stays as it was\n"; said.String() != want {
		t.Errorf("said %q, want %q", &said, want)
	}
}

func TestCrowded(t *testing.T) {
	host := func(name string, cpus, ranks int) spmd.Host {
		return spmd.Host{Name: name, CPUs: cpus, Ranks: make([]int, ranks)}
	}
	for _, tt := range []struct {
		hosts []spmd.Host
		want  []string
	}{
		{[]spmd.Host{host("a", 64, 8), host("b", 8, 8)}, nil},
		{[]spmd.Host{host("a", 1, 2)}, []string{"a has 1 CPU for 2 ranks: their waits for a CPU are in the figures"}},
		{
			[]spmd.Host{host("a", 2, 3), host("b", 4, 16), host("c", 8, 8), host("d", 4, 5)},
			[]string{"b has 4 CPUs for 16 ranks: their waits for a CPU are in the figures; so in 2 hosts more"},
		},
		{[]spmd.Host{{Name: "a", CPUs: 8, Quota: 2, Ranks: make([]int, 2)}}, nil},
		{
			[]spmd.Host{host("a", 1, 2), {Name: "b", CPUs: 8, Quota: 0.5, Ranks: make([]int, 2)}, {Name: "c", CPUs: 1, Quota: 4, Ranks: make([]int, 2)}},
			[]string{"b has a CPU quota of 0.5 for 2 ranks: their waits for a CPU are in the figures; so in 2 hosts more"},
		},
	} {
		if got := crowded(tt.hosts); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.hosts, got, tt.want)
		}
	}
}

func TestSharedGPUs(t *testing.T) {
	hosts := []spmd.Host{{Name: "a", Ranks: []int{0, 1, 2}}, {Name: "b", Ranks: []int{3, 4, 5}}}
	const mps = ". CUDA's MPS serves them side by side, on one H100 in 31 us instead of 580: nvidia-cuda-mps-control -d, " +
		"without root with CUDA_MPS_PIPE_DIRECTORY and CUDA_MPS_LOG_DIRECTORY set, to the same for it and the job"
	for _, tt := range []struct {
		gpus, mps string // by rank; - has no GPU
		want      []string
	}{
		{"------", "------", nil},
		{"pqrpq-", "------", nil}, // hosts may have GPUs of one name
		{
			"pqqstu", "------",
			[]string{"2 ranks on a share a GPU, which serves them in turn: their waits for it are in the figures" + mps},
		},
		{
			"pqqsss", "mmm---",
			[]string{"3 ranks on b share a GPU, which serves them in turn: their waits for it are in the figures; so in 1 GPU more" + mps},
		},
		{"pqqsss", "---mmm", []string{"3 ranks on b share a GPU, by CUDA's MPS: each has a part of its speed; so in 1 GPU more"}},
	} {
		uses := make([]gpuUse, len(tt.gpus))
		for i := range uses {
			uses[i] = gpuUse{UUID: strings.Trim(tt.gpus[i:i+1], "-"), MPS: tt.mps[i] == 'm'}
		}
		if got := shared(uses, hosts); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.gpus, got, tt.want)
		}
	}
}

// The ranks of a host take in turn the GPUs that each may use.
func TestGPUOf(t *testing.T) {
	worlds, _ := spmd.NewInMemory(1)
	for _, tt := range []struct {
		gpus []string
		err  error
		ok   bool
	}{{nil, nil, false}, {nil, errors.New("the driver is older than CUDA"), false}, {[]string{"p", "q"}, nil, true}} {
		e := &Experiment{Config: Config{World: worlds[0], GPUs: func() ([]string, error) { return tt.gpus, tt.err }}}
		if ordinal, ok := e.GPUOf(); ordinal != 0 || ok != tt.ok {
			t.Errorf("%q: GPU %d, %v, want %v", tt.gpus, ordinal, ok, tt.ok)
		}
	}
}

// The journal of a job that was killed keeps what that job has measured when another writes to the same file, and the
// later job says where. One of a job that lives stays where it is.
func TestOrphan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	killed := measured(path)
	killed.Doc.Seed = 5
	killed.Checkpoint()
	living := measured(path)
	living.Checkpoint()
	if notes := strings.Join(living.Doc.Notes, "\n"); !strings.Contains(notes, "another job is at work on "+path) {
		t.Errorf("beside a job that lives: notes %q", notes)
	}
	if d, err := result.Read(path); err != nil || d.Seed != 5 || !strings.Contains(strings.Join(d.Notes, "\n"), "read from "+path+".part") {
		t.Errorf("%+v, %v", d, err)
	}
	killed.journal.Close()
	living.journal.Close()
	later := measured(path)
	later.Checkpoint()
	if notes := strings.Join(later.Doc.Notes, "\n"); !strings.Contains(notes, path+".part was left by a job that was killed; it is "+path+".part.old now") {
		t.Errorf("after a job that was killed: notes %q", notes)
	}
	if d, err := result.Read(path + ".part.old"); err != nil || d.Seed != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := result.Read(path); err != nil || d.Seed != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
