package runs

import (
	"cmp"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// LoadOptions say how reports become runs.
type LoadOptions struct {
	// The mean lengths are rounded to multiples of RoundISL and RoundOSL, halves to the even one, so that runs of one
	// workload fall into one scenario. Both are above 0.
	RoundISL, RoundOSL float64
	// Progress, unless nil, is told how many files are done, from many
	// goroutines.
	Progress func(done, all int)
	// GroupBy are the columns that make scenarios; none stands for ScenarioColumns.
	GroupBy []*Column
}

// DefaultLoadOptions round input lengths to tens and output lengths to whole tokens.
func DefaultLoadOptions() LoadOptions { return LoadOptions{RoundISL: 10, RoundOSL: 1} }

// Skipped is a file that could not be read. Err names it.
type Skipped struct {
	File string
	Err  error
}

// Loaded is the outcome of Load.
type Loaded struct {
	Runs     []*Record // in the order of Sort
	Skipped  []Skipped // by path
	Sessions []string  // reports of sessions, of which no run is made
	Links    int       // symbolic links to reports and folders that were not followed
	Link     string    // the first of them
}

// Load imports the reports in files and folders, which are searched with all
// folders below them. Only an argument that does not exist or cannot be opened is
// an error, of the kind Input.
func Load(paths []string, o LoadOptions) (*Loaded, error) {
	f := finder{seen: map[string]int{}}
	for _, p := range paths {
		if err := f.add(p); err != nil {
			return nil, err
		}
	}
	files := f.sorted()
	read := make([][]*Record, len(files))
	errs := make([]error, len(files))
	parallel(len(files), o.Progress, func(i int) { read[i], errs[i] = one(files[i], o) })

	in := &Loaded{Links: f.links, Link: f.link}
	for i, file := range files {
		in.Runs = append(in.Runs, read[i]...)
		switch {
		case errors.Is(errs[i], errSession):
			in.Sessions = append(in.Sessions, file.path)
		case errs[i] != nil:
			in.Skipped = append(in.Skipped, Skipped{file.path, errs[i]})
		}
	}
	in.Runs = newest(in.Runs)
	adopt(in.Runs)
	Sort(in.Runs, o.GroupBy...)
	slices.SortFunc(in.Skipped, func(a, b Skipped) int { return cmp.Compare(a.File, b.File) })
	return in, nil
}

// parallel calls do for 0 to n-1 from as many goroutines as there are processors.
func parallel(n int, progress func(done, all int), do func(i int)) {
	var next, done atomic.Int64
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(i)
				if d := int(done.Add(1)); progress != nil {
					progress(d, n)
				}
			}
		})
	}
	all.Wait()
}

// one reads a file.
func one(file found, o LoadOptions) ([]*Record, error) {
	list, err := open(file)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		r.File, r.Folder, r.Directory = file.path, filepath.Base(filepath.Dir(file.absolute)), file.directory
		if r.ofClient() {
			r.Label = r.Folder
		}
		if r.failed() {
			r.unmeasured()
		}
		if !r.Transfer && len(r.held().Unusual()) > 0 {
			r.Notes = append(r.Notes, "less than half of the concurrency was in flight, since single requests took much longer than "+
				"the others, or the client paused")
		}
		r.ISL, r.OSL = Round(r.InputLength, o.RoundISL), Round(r.OutputLength, o.RoundOSL)
	}
	return list, nil
}

func open(f found) (list []*Record, err error) {
	// A defect in a parser costs one file, not the import.
	defer func() {
		if trouble := recover(); trouble != nil {
			list, err = nil, fault.New(fault.Input, "%s: cannot be read: %v", f.path, trouble)
		}
	}()
	if f.err != nil {
		return nil, f.err
	}
	if isResult(f.path) && HasResult(f.absolute) {
		return resultRuns(f)
	}
	if !IsReport(f.path) {
		if list, err := clientRuns(f); err == nil && list != nil || f.open {
			return list, nil // what is no file of a client was not asked for
		}
	}
	text, err := file.Read(f.absolute, conf.MaxBytes)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: cannot be read: %w", f.path, withoutPath(err))
	}
	r, err := ReadReport(f.path, text)
	if err != nil {
		return nil, err
	}
	return []*Record{r}, nil
}
