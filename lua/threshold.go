package lua

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/expr"
	"perigee/internal/fault"
	"perigee/internal/metric"
	"perigee/internal/result"
)

// maxThresholds is how many thresholds a script may set by the function of that name, and how many its field may hold.
const maxThresholds = 1000

// threshold(metric, condition, {abort = true}) at the top level of a script.
// It is held against the result at the end of the run, or while it runs.
func (r *Runtime) threshold(L *glua.LState) (int, error) {
	if r.run != nil {
		return 0, fault.New(fault.Script, "threshold is called at the top level of a script, before anything runs")
	}
	if len(r.Thresholds) == maxThresholds {
		return 0, fault.New(fault.Script, "threshold: want at most %d thresholds, got more", maxThresholds)
	}
	t, err := metric.ParseCondition(L.CheckString(1), L.CheckString(2))
	if err != nil {
		return 0, fault.New(fault.Script, "%w", err)
	}
	if t.AbortAfter, err = abortArg(L, t.AbortAfter); err != nil {
		return 0, err
	}
	t.From = strings.TrimSuffix(place(L), ": ")
	r.Thresholds = append(r.Thresholds, t)
	return 0, nil
}

// Limits are the thresholds that the script has set, and those that its field thresholds has for these options. The
// field reads no files: every rank asks for it before there is a world.
func (r *Runtime) Limits(options map[string]any) ([]metric.Threshold, error) {
	all := slices.Clone(r.Thresholds)
	v, err := r.valueFor(r.limits, options)
	if err != nil {
		return nil, err
	}
	if v == nil || v == glua.LNil {
		return all, nil
	}
	list, ok := v.(*glua.LTable)
	if !ok {
		return nil, fault.New(fault.Script, "%s: thresholds is %s, want a list of texts", r.Name, describe(v))
	}
	if n := list.Len(); n > maxThresholds {
		return nil, fault.New(fault.Script, "%s: thresholds has %d texts, want at most %d", r.Name, n, maxThresholds)
	}
	stray, last := glua.LValue(glua.LNil), int64(list.Len())
	list.ForEach(func(key, _ glua.LValue) {
		if i, ok := wholeNumber(key); !ok || i < 1 || i > last {
			stray = key
		}
	})
	if stray != glua.LNil {
		return nil, fault.New(fault.Script, "%s: thresholds has the key %s, want a list of texts", r.Name, stray)
	}
	for i, n := 1, list.Len(); i <= n; i++ {
		from := fmt.Sprintf("%s: thresholds[%d]", r.Name, i)
		text, ok := list.RawGetInt(i).(glua.LString)
		if !ok {
			return nil, fault.New(fault.Script, `%s is %s, want a text such as "latency_ms.p99 < 40"`, from,
				describe(list.RawGetInt(i)))
		}
		t, err := metric.ReadThreshold(string(text), r.Metrics)
		if err != nil {
			return nil, fault.New(fault.Script, "%s: %w", from, err)
		}
		t.From = from
		all = append(all, t)
	}
	return all, nil
}

// abortArg reads the third argument of threshold: {abort = true}, or a number of samples.
func abortArg(L *glua.LState, after int) (int, error) {
	if L.Get(3) == glua.LNil {
		return after, nil
	}
	f := newFields("threshold", L.CheckTable(3))
	switch v := f.get("abort").(type) {
	case glua.LBool:
		after = 0
		if v {
			after = 1
		}
	case glua.LNumber:
		after = int(min(f.integer("abort", 1, 1), math.MaxInt32))
	default:
		if v != glua.LNil {
			f.fail("abort", "true, or a number of samples", v)
		}
	}
	return after, f.err()
}

// sample(name, value, labels) adds a value to one of the scenario's metrics.
func (r *resultModule) sample(L *glua.LState) (int, error) {
	name, value := L.CheckString(1), float64(L.CheckNumber(2))
	if !slices.ContainsFunc(r.Metrics, func(d result.MetricDef) bool { return d.Name == name }) {
		return 0, fault.New(fault.Script, "result.sample: the scenario declares no metric %s", quoted(name)).
			WithHint("a scenario lists its metrics: metrics = { { %q, \"what it is\" } }", name)
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fault.New(fault.Script, "result.sample: %s is %v, want a finite number", name, value)
	}
	labels, err := labelsArg(L, 3)
	if err != nil {
		return 0, err
	}
	if r.env.Doc == nil {
		return 0, nil
	}
	if err := r.env.Doc.AddLabelled(name, labels, value, r.env.World.Now()); err != nil {
		return 0, err
	}
	if err := r.env.Sampled(); err != nil {
		// The others do not wait in this function, but the job is over.
		return 0, r.env.World.Fail(err)
	}
	r.env.CheckpointSparingly()
	return 0, nil
}

// labelsArg reads argument n, which may be missing: a table of texts, numbers and booleans.
func labelsArg(L *glua.LState, n int) (result.Labels, error) {
	if L.Get(n) == glua.LNil {
		return nil, nil
	}
	labels := result.Labels{}
	var err error
	L.CheckTable(n).ForEach(func(k, v glua.LValue) {
		switch v := v.(type) {
		case glua.LString:
			labels[k.String()] = string(v)
		case glua.LBool:
			labels[k.String()] = v.String()
		case glua.LNumber:
			labels[k.String()] = result.LabelNumber(float64(v))
		default:
			err = fault.New(fault.Script, "result.sample: the label %s is %s, want a string, a number or a boolean", k,
				describe(v))
		}
	})
	if err == nil {
		err = labels.Check()
	}
	return labels, err
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
	for i, n := 1, list.Len(); i <= n; i++ {
		t, ok := list.RawGetInt(i).(*glua.LTable)
		if !ok {
			return nil, fmt.Errorf("element %d is %s, want { name, help }", i, describe(list.RawGetInt(i)))
		}
		d, err := metricFrom(t)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if slices.ContainsFunc(all, func(o result.MetricDef) bool { return o.Name == d.Name }) {
			return nil, fmt.Errorf("%s is there twice", d.Name)
		}
		all = append(all, d)
	}
	return all, nil
}

func metricFrom(t *glua.LTable) (d result.MetricDef, err error) {
	f := newFields("metric", t)
	f.asked["1"], f.asked["2"] = true, true
	d.Better = f.text("better", "")
	if err := f.err(); err != nil {
		return d, err
	}
	name, ok := t.RawGetInt(1).(glua.LString)
	if !ok || !metricName.MatchString(string(name)) || len(name) > result.MaxName {
		return d, fmt.Errorf("the name is %s, want at most %d letters, digits and _, with a letter in front",
			describe(t.RawGetInt(1)), result.MaxName)
	}
	if _, taken := metric.Find(string(name)); taken {
		return d, fmt.Errorf("%s is the name of a metric of every run", name)
	}
	d.Name = string(name)
	if help, ok := t.RawGetInt(2).(glua.LString); ok {
		d.Help = string(help)
	}
	if d.Better != "" && d.Better != string(expr.Lower) && d.Better != string(expr.Higher) {
		return d, fmt.Errorf("%s: better is %s, want lower or higher", name, quoted(d.Better))
	}
	return d, nil
}
