package lua

import (
	"fmt"
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/fault"
	"perigee/lua/vm"
)

// maxThresholds is how many thresholds a script may set by the function of that name, and how many its field may hold.
const maxThresholds = 1000

// threshold(metric, condition, {abort = true}) at the top level of a script.
// It is held against the result at the end of the run, or while it runs.
func (s *Scenario) threshold(L *glua.LState) (int, error) {
	if s.run != nil {
		return 0, fault.New(fault.Script, "threshold is called at the top level of a script, before anything runs")
	}
	if len(s.Thresholds) == maxThresholds {
		return 0, fault.New(fault.Script, "threshold: want at most %d thresholds, got more", maxThresholds)
	}
	t, err := metric.ParseCondition(L.CheckString(1), L.CheckString(2))
	if err != nil {
		return 0, fault.New(fault.Script, "%w", err)
	}
	if t.AbortAfter, err = abortArg(L, t.AbortAfter); err != nil {
		return 0, err
	}
	if err := t.Abortable(); err != nil {
		return 0, fault.New(fault.Script, "threshold: %w", err)
	}
	t.From = strings.TrimSuffix(vm.Place(L), ": ")
	s.Thresholds = append(s.Thresholds, t)
	return 0, nil
}

// limitsFrom reads the field thresholds of the scenario: a list of texts.
func (s *Scenario) limitsFrom(v glua.LValue) (limits []metric.Threshold, err error) {
	list, ok := v.(*glua.LTable)
	if !ok {
		return nil, fault.New(fault.Script, "%s: thresholds is %s, want a list of texts", s.Name, vm.Describe(v))
	}
	if n := list.Len(); n > maxThresholds {
		return nil, fault.New(fault.Script, "%s: thresholds has %d texts, want at most %d", s.Name, n, maxThresholds)
	}
	if err := vm.List(s.Name+": thresholds", "a list of texts", list); err != nil {
		return nil, err
	}
	for i, n := 1, list.Len(); i <= n; i++ {
		from := fmt.Sprintf("%s: thresholds[%d]", s.Name, i)
		text, ok := list.RawGetInt(i).(glua.LString)
		if !ok {
			return nil, fault.New(fault.Script, `%s is %s, want a text such as "latency_ms.p99 < 40"`, from,
				vm.Describe(list.RawGetInt(i)))
		}
		t, err := metric.ReadThreshold(string(text), s.Metrics)
		if err != nil {
			return nil, fault.New(fault.Script, "%s: %w", from, err)
		}
		t.From = from
		limits = append(limits, t)
	}
	return limits, nil
}

// abortArg reads the third argument of threshold: {abort = true}, or a number of samples.
func abortArg(L *glua.LState, after int) (int, error) {
	if L.Get(3) == glua.LNil {
		return after, nil
	}
	f := vm.NewFields("threshold", L.CheckTable(3))
	switch v := f.Get("abort").(type) {
	case glua.LBool:
		after = 0
		if v {
			after = 1
		}
	case glua.LNumber:
		after = int(min(f.Integer("abort", 1, 1), math.MaxInt32))
	default:
		if v != glua.LNil {
			f.Fail("abort", "true, or a number of samples", v)
		}
	}
	return after, f.Err()
}
