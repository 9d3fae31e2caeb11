package moe

import (
	"bytes"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/fault"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// modelSizes: model(name), the sizes of a model's layers with experts, by the name of a model that perigee knows or the
// path of its file.
func (r base) modelSizes(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	plain, err := r.AtRankZero("moe.model of "+name, func() (any, error) {
		text, err := modules.ModelText(r, name)
		if err != nil {
			return nil, err
		}
		a, err := modules.ModelFrom(text)
		if err != nil {
			return nil, err
		}
		if err := a.CheckExperts(name); err != nil {
			return nil, err
		}
		return map[string]any{
			"name": a.Name, "hidden": a.Hidden, "experts": a.Experts, "topk": a.TopK, "shared": a.Shared,
		}, nil
	})
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, plain))
}

// loads: loads(path, layer) reads a row of loads.
func (r base) loads(L *glua.LState) (int, error) {
	path := L.CheckString(1)
	layer, err := vm.OptionalInteger(L, 2, 0, 0)
	if err != nil {
		return 0, err
	}
	plain, err := r.AtRankZero("moe.loads of "+path, func() (any, error) {
		text, err := modules.ReadText(r, path)
		if err != nil {
			return nil, err
		}
		layers, err := moe.ReadLoads(path, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if layer >= len(layers) {
			return nil, fault.New(fault.Usage, "layer %d: %s has rows 0 to %d", layer, path, len(layers)-1)
		}
		list := make([]any, len(layers[layer]))
		for i, v := range layers[layer] {
			list[i] = v
		}
		return list, nil
	})
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, plain))
}
