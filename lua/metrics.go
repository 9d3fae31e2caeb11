package lua

import (
	"fmt"
	"regexp"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/expr"
	"perigee/internal/metric"
	"perigee/internal/result"
	"perigee/lua/vm"
)

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
