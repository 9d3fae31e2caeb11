package config

import (
	"fmt"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/lazyre"
)

// Filter says which cases a run is about. Zero members select everything.
type Filter struct {
	GPU      GPU
	Assumed  bool   // no user has named the GPU: cases with a section job run on any
	Category string // -m
	Type     string
	Model    string
	Keyword  Expr            // -k
	List     *List           // test list file
	Failed   map[string]bool // by id: only the cases that failed; nil: all
}

// Choice is a config and whether it is selected.
type Choice struct {
	*Config
	Reason string // why it is not; empty if it is
}

// HasNotFailed is why a case is not selected that Failed alone leaves out.
const HasNotFailed = "--last-failed: it has not failed when it last ran there"

// functions are the names of the tests of each category in node ids.
var functions = map[string]string{"perf": "test_benchmark", "perf-sanity": "test_benchmark",
	"accuracy": "test_accuracy", "stress": "test_stress"}

// Function returns the name of the test function of a category.
func Function(category string) string { return functions[category] }

// NodeID is the id of a case in test lists.
func NodeID(id Ident) string {
	return "test_disagg.py::TestDisaggBenchmark::" + functions[id.Category] + "[" + id.String() + "]"
}

// Apply holds every config against the filter. Nothing is dropped: what is not selected has a
// reason.
func (f Filter) Apply(configs []*Config) []Choice {
	list := make([]Choice, len(configs))
	for i, c := range configs {
		list[i] = Choice{c, f.reason(c)}
	}
	return list
}

func (f Filter) reason(c *Config) string {
	switch {
	case f.Type != "" && c.Type != f.Type:
		return fmt.Sprintf("type is %s, not %s", c.Type, f.Type)
	case f.Category != "" && c.Category != f.Category:
		return fmt.Sprintf("-m %s: category is %s", f.Category, c.Category)
	case f.Model != "" && c.ModelName != f.Model:
		return fmt.Sprintf("model is %s, not %s", c.ModelName, f.Model)
	case f.List != nil && !f.List.take(c.Ident):
		return "not in the test list"
	case !f.Keyword.Match(functions[c.Category] + "[" + c.Ident.String() + "]"):
		return "-k does not match"
	case f.Failed != nil && !f.Failed[c.Ident.String()]:
		return HasNotFailed
	case c.SupportedGPUs != nil && !f.GPU.Runs(c.SupportedGPUs) && !(f.Assumed && c.UsesCommand()):
		return fmt.Sprintf("GPU %s is not in supported_gpus (%s)", f.GPU.Name, strings.Join(c.SupportedGPUs, ", "))
	}
	return ""
}

// List is a test list: ids of the tests to run.
type List struct {
	File  string
	Lines []Line
	named map[string][]*Line // by the id of the case, bare or in a node id
}

// Line is one entry of a test list.
type Line struct {
	Number  int
	ID      string
	Matched bool
}

var node = lazyre.New(`^\S*::[A-Za-z_]+\[(.+)\]$`)

// ReadList reads a test list: a node id or a bare id per line; blank lines and
// lines that begin with # do not count.
func ReadList(path string) (*List, error) {
	const most = 4 << 20
	data, err := file.Read(path, most)
	if err != nil {
		return nil, fault.New(fault.Input, "test list: %w", err)
	}
	l := &List{File: path, named: map[string][]*Line{}}
	for i, text := range strings.Split(string(data), "\n") {
		if text = strings.TrimSpace(text); text != "" && text[0] != '#' {
			l.Lines = append(l.Lines, Line{Number: i + 1, ID: text})
		}
	}
	if len(l.Lines) == 0 {
		return nil, fault.New(fault.Input, "test list %s: there is no test id in it", path).
			WithHint("one id per line, such as disagg_perf_NAME or %s",
				NodeID(Ident{Type: "disagg", Category: "perf", Stem: "NAME"}))
	}
	for i := range l.Lines {
		line := &l.Lines[i]
		l.named[line.ID] = append(l.named[line.ID], line)
		if m := node.FindStringSubmatch(line.ID); m != nil {
			l.named[m[1]] = append(l.named[m[1]], line)
		}
	}
	return l, nil
}

// take reports whether the list names a case, and remembers that the line is
// matched.
func (l *List) take(id Ident) bool {
	found := false
	for _, line := range l.named[id.String()] {
		// A node id of another category's function names no test.
		if line.ID == id.String() || strings.Contains(line.ID, "::"+functions[id.Category]+"[") {
			line.Matched, found = true, true
		}
	}
	return found
}

// Unmatched lists the lines that name no test, as "file:line: id".
func (l *List) Unmatched() []string {
	var list []string
	for _, line := range l.Lines {
		if !line.Matched {
			list = append(list, fmt.Sprintf("%s:%d: no test has the id %s", l.File, line.Number, line.ID))
		}
	}
	return list
}

// Selected returns the selected configs.
func Selected(list []Choice) (selected []*Config) {
	for _, c := range list {
		if c.Reason == "" {
			selected = append(selected, c.Config)
		}
	}
	return selected
}
