package lua

import (
	"fmt"
	"regexp"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/lua/option"
	"perigee/lua/vm"
)

// Scenario holds the members of the table that a script returns.
type Scenario struct {
	Name  string
	About string
	option.Options
	Metrics []result.MetricDef // its own
	// Thresholds are those that the script has set.
	Thresholds []metric.Threshold
	Library    Library // its modules

	ranks  glua.LValue
	limits glua.LValue // thresholds that depend on the options
	run    *glua.LFunction
}

// Hooks counts the functions that perigee calls.
func (s *Scenario) Hooks() (n int) {
	for _, v := range []glua.LValue{s.ranks, s.limits, s.run} {
		if f, ok := v.(*glua.LFunction); ok && f != nil {
			n++
		}
	}
	return n
}

// describe reads the table that a script has returned.
func (s *Scenario) describe(name string, v glua.LValue) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Script, "%s: "+format, append([]any{name}, args...)...).
			WithHint("a scenario returns a table with about, options, ranks and run; see docs/lua.md")
	}
	t, ok := v.(*glua.LTable)
	if !ok {
		return bad("the script returned %s, want a table", v.Type())
	}
	s.Name = name
	f := vm.NewFields("the scenario", t)
	s.About, s.ranks, s.limits = f.Text("about", ""), f.Get("ranks"), f.Get("thresholds")
	if k := s.limits.Type(); k != glua.LTNil && k != glua.LTTable && k != glua.LTFunction {
		f.Fail("thresholds", "a list or a function", s.limits)
	}
	if k := s.ranks.Type(); k != glua.LTNil && k != glua.LTNumber && k != glua.LTFunction {
		f.Fail("ranks", "a number or a function", s.ranks)
	}
	if f.Get("run") == glua.LNil {
		return bad("the scenario has no function run")
	}
	if s.run, ok = f.Get("run").(*glua.LFunction); !ok {
		f.Fail("run", "a function", f.Get("run"))
	}
	list, own := f.Table("options"), f.Table("metrics")
	if err := f.Err(); err != nil {
		return bad("%w", err)
	}
	for name, t := range map[string]*glua.LTable{"options": list, "metrics": own} {
		if t == nil {
			continue
		}
		if err := vm.List(name, "a list", t); err != nil {
			return bad("%w", err)
		}
	}
	var err error
	if s.Options, err = option.From(list); err != nil {
		return bad("options: %w", err)
	}
	if s.Metrics, err = metricsFrom(own); err != nil {
		return bad("metrics: %w", err)
	}
	for _, t := range s.Thresholds {
		if err := t.CheckFor(s.Metrics); err != nil {
			return fault.New(fault.Script, "%s: %w", t.From, err)
		}
	}
	return nil
}

var metricName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*$`)

// metricsFrom reads the list that a scenario has as its metrics:
// { {"ttft_ms", "time to first token", better = "lower"}, ... }.
func metricsFrom(list *glua.LTable) ([]result.MetricDef, error) {
	if list == nil {
		return nil, nil
	}
	if list.Len() > result.MaxMetrics {
		return nil, fmt.Errorf("wanted at most %d, got %d", result.MaxMetrics, list.Len())
	}
	var all []result.MetricDef
	err := vm.Each(list, "element %d", "{ name, help }", func(i int, t *glua.LTable) error {
		d, err := metricFrom(t)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if slices.ContainsFunc(all, func(o result.MetricDef) bool { return o.Name == d.Name }) {
			return fmt.Errorf("%s is there twice", d.Name)
		}
		all = append(all, d)
		return nil
	})
	return all, err
}

func metricFrom(t *glua.LTable) (d result.MetricDef, err error) {
	f := vm.NewFields("metric", t)
	first := f.Positions(2) // the name and the help
	d.Better = f.Text("better", "")
	if err := f.Err(); err != nil {
		return d, err
	}
	name, ok := first[0].(glua.LString)
	if !ok || !metricName.MatchString(string(name)) || len(name) > result.MaxName {
		return d, fmt.Errorf("the name is %s, want at most %d letters, digits and _, with a letter in front",
			vm.Describe(first[0]), result.MaxName)
	}
	if _, taken := metric.Find(string(name)); taken {
		return d, fmt.Errorf("%s is the name of a metric of every run", name)
	}
	d.Name = string(name)
	if help, ok := first[1].(glua.LString); ok {
		d.Help = string(help)
	}
	if d.Better != "" && d.Better != string(expr.Lower) && d.Better != string(expr.Higher) {
		return d, fmt.Errorf("%s: better is %s, want lower or higher", name, vm.Quoted(d.Better))
	}
	return d, nil
}
