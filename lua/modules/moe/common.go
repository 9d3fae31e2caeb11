package moe

import (
	"encoding/json"

	"perigee/internal/fault"
	"perigee/internal/traffic/session"
	"perigee/lua/modules"
)

// alike fails at all ranks where one asks a collective function for something else than rank 0: they would wait for
// messages that no rank sends.
func alike(h modules.Host, function, asked string) error {
	w, err := h.World()
	if err != nil {
		return err
	}
	leading, other, rank, err := session.FirstDifferent(w, asked)
	if err != nil || rank < 0 {
		return err
	}
	return fault.New(fault.Script, "%s: rank 0 asks for %s; rank %d asks for %s", function, leading, rank, other).
		WithHint("every rank must give it the same values")
}

// plainOf makes plain data of a struct, by way of JSON.
func plainOf(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	return plain, json.Unmarshal(data, &plain)
}

// addValue appends to a list among the result's values, and saves the result.
func addValue(h modules.Host, name string, v any) {
	d := h.Env().Doc
	if d.Values == nil {
		d.Values = map[string]any{}
	}
	list, _ := d.Values[name].([]any)
	d.Values[name] = append(list, v)
	h.Env().Checkpoint()
}
