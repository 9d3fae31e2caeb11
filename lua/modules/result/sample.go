package result

import (
	"math"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// sample(name, value, labels) adds a value to one of the scenario's metrics.
func sample(r modules.Host, L *glua.LState) (int, error) {
	name, value := L.CheckString(1), float64(L.CheckNumber(2))
	if !slices.ContainsFunc(r.Env().Metrics, func(d result.MetricDef) bool { return d.Name == name }) {
		return 0, fault.New(fault.Script, "result.sample: the scenario declares no metric %s", vm.Quoted(name)).
			WithHint("a scenario lists its metrics: metrics = { { %q, \"what it is\" } }", name)
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fault.New(fault.Script, "result.sample: %s is %v, want a finite number", name, value)
	}
	labels, err := labelsArg(L, 3)
	if err != nil {
		return 0, err
	}
	if r.Env().Doc == nil {
		return 0, nil
	}
	if err := r.Env().Doc.AddLabelled(name, labels, value, r.Env().World.Now()); err != nil {
		return 0, err
	}
	if err := r.Env().Sampled(); err != nil {
		// The others do not wait in this function, but the job is over.
		return 0, r.Env().World.Fail(err)
	}
	r.Env().CheckpointSparingly()
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
				vm.Describe(v))
		}
	})
	if err == nil {
		err = labels.Check()
	}
	return labels, err
}
