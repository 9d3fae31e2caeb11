// Package moe is the module moe, which sends tokens between experts as a mixture-of-experts layer does.
//
// moe.open makes a data plane of a routing and a placement (spec.go): what it measures, verifies and compares with
// other traffic is in plane.go. moe.control times the steps around data planes (control.go), moe.elastic lets ranks
// leave and come back (elastic.go). moe.loads and moe.model read files at rank 0 (files.go). The rest computes without
// a world, so that the functions ranks and thresholds may ask (compute.go).
//
// The engine and the world are the host's; perigee/internal/ep/experts does the work, perigee/internal/ep/moe the
// arithmetic. What is measured goes into the values of the host's result, as ep, ep_beside, ep_control and ep_elastic.
package moe

import (
	"errors"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/ep/experts"
	"perigee/internal/ep/moe"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// Module is the module moe.
type Module struct{}

type instance struct{ planes }

// New makes the module of a VM, and the type of data planes.
func (Module) New(h modules.Host) modules.Instance {
	r := &instance{planes{base: base{h}}}
	r.class().Open(h.VM())
	return r
}

// Exports lists the functions.
func (r *instance) Exports() modules.Exports {
	return modules.Exports{Functions: map[string]vm.Function{
		"open":          r.Collective(modules.InWorld(r, r.make)),
		"loads":         r.Collective(r.loads),
		"control":       r.Collective(modules.InWorld(r, r.control)),
		"elastic":       r.Collective(modules.InWorld(r, r.elastic)),
		"plan":          r.Collective(r.plan),
		"plan_ranks":    planRanks,
		"plans":         texts(experts.Plans),
		"growth":        growth,
		"phases":        texts(experts.PhaseNames),
		"fit":           fit,
		"check":         r.check,
		"model":         r.Collective(r.modelSizes),
		"options":       options,
		"check_options": checkOptions,
		"families":      texts(moe.Families),
		"sabotages":     texts(experts.Sabotages),
		"buffer_size":   bufferSize,
	}}
}

// texts makes a function that returns a list of texts.
func texts(list func() []string) vm.Function {
	return func(L *glua.LState) (int, error) { return vm.Return(L, vm.Texts(L, list())) }
}

// Close closes the data planes that the script has left open.
func (r *instance) Close() error {
	var errs []error
	for _, p := range r.open {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
