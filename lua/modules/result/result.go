// Package result is the module result: what a run prints, and what its result keeps besides the measurements.
//
// Values (set), samples of the scenario's own metrics (sample), notes, tables (table.go), files of JSON
// (save) and progress bars (progress.go). Its functions do their work at rank 0, where the host has the document of
// the result; at the others they check their arguments and do nothing, so that a script need not ask which rank it is.
// What is in the document is saved from time to time (see perigee/internal/experiment), so that an interrupted run
// keeps it. save writes only what perigee/lua/files allows.
package result

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/result"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// Module is the module result.
type Module struct{}

type instance struct {
	modules.Host
	bars   bars
	tables tables
	lost   map[string]bool // values of which a note says that they have numbers which no file can hold
}

// New makes the module of a VM, and the types of progress bars and of tables whose rows come one by one.
func (Module) New(h modules.Host) modules.Instance {
	r := &instance{Host: h, bars: bars{Host: h}, lost: map[string]bool{}}
	r.tables.bars = &r.bars
	r.bars.class().Open(h.VM())
	r.tables.streamClass().Open(h.VM())
	return r
}

// null is a value that is stored as JSON's null, where a table would lose nil.
type null struct{}

// Plain makes nil of it.
func (null) Plain(int) (plain any, values int, err error) { return nil, 0, nil }

// Exports lists the functions, and null.
func (r *instance) Exports() modules.Exports {
	nothing := r.VM().L.NewUserData()
	nothing.Value = null{}
	return modules.Exports{
		Functions: map[string]vm.Function{
			"set":      r.set,
			"sample":   func(L *glua.LState) (int, error) { return sample(r, L) },
			"note":     r.note,
			"table":    r.tables.table,
			"save":     r.save,
			"progress": r.bars.progress,
			"workload": r.workload,
		},
		Fields: map[string]glua.LValue{"null": nothing},
	}
}

// set(name, value).
func (r *instance) set(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	v, err := vm.Stored(L.Get(2))
	if err == nil {
		err = vm.CheckKey(name)
	}
	if err != nil {
		return 0, err
	}
	if d := r.Env().Doc; d != nil {
		if d.Values == nil {
			d.Values = map[string]any{}
		}
		d.Values[name] = v
		r.noteLost(name, v)
		r.Env().Checkpoint()
	}
	return 0, nil
}

// noteLost says, once for each name, that a value has numbers which the file will not have.
func (r *instance) noteLost(name string, v any) {
	found := result.NotFinite(name, v)
	if len(found) == 0 || r.lost[name] {
		return
	}
	r.lost[name] = true
	text := "result.set: " + found[0]
	if len(found) > 1 {
		text += fmt.Sprintf(", and %d more are NaN or infinite", len(found)-1)
	}
	r.Env().Note(text + ": null in the result")
}

// note(text), a line that begins with # and a note in the result.
func (r *instance) note(L *glua.LState) (int, error) {
	r.Env().Note(L.CheckString(1))
	return 0, nil
}

// workload(generator) says of what the prepared patterns are the traffic, in the header and in the result.
func (r *instance) workload(L *glua.LState) (int, error) {
	plain, err := vm.ToGo(L.CheckTable(1))
	if err != nil {
		return 0, err
	}
	generator, _ := plain.(map[string]any) // a list says nothing
	r.Env().DescribeWorkload(generator)
	return 0, nil
}

// save(path, value) writes a value as JSON.
func (r *instance) save(L *glua.LState) (int, error) {
	path := L.CheckString(1)
	v, err := vm.ToGo(L.Get(2))
	if err != nil {
		return 0, err
	}
	if err := r.Files().MayWrite(path); err != nil {
		return 0, err
	}
	if r.Env().Doc == nil {
		return 0, nil
	}
	data, err := json.MarshalIndent(result.Finite(v), "", "  ")
	if err != nil {
		return 0, fault.New(fault.Script, "result.save: %w", err)
	}
	return 0, file.Write(path, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// Close takes the progress bars off the terminal.
func (r *instance) Close() error {
	for _, b := range r.bars.open {
		b.finish()
	}
	return nil
}

// sample(name, value, labels) adds a value to one of the scenario's metrics.
func sample(r modules.Host, L *glua.LState) (int, error) {
	name, value := L.CheckString(1), float64(L.CheckNumber(2))
	labels, err := modules.LabelsFrom(r, "result.sample", name, L.OptTable(3, nil))
	if err != nil {
		return 0, err
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fault.New(fault.Script, "result.sample: %s is %v, want a finite number", name, value)
	}
	if err := modules.AddSamples(r, name, labels, value); err != nil {
		return 0, err
	}
	r.Env().Checkpoint()
	return 0, nil
}
