package spmd

import (
	"encoding/json"
	"fmt"
)

// BroadcastValue is Broadcast for a value that JSON can carry. A value that JSON cannot carry is an error at root.
func BroadcastValue[T any](g *Group, root int, v T) (T, error) {
	var data []byte
	if g.me == root {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return v, err
		}
	}
	data, err := g.Broadcast(root, data)
	if err != nil {
		return v, err
	}
	return decode[T](data)
}

// GatherValue is Gather for values that JSON can carry.
func GatherValue[T any](g *Group, root int, v T) ([]T, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	all, err := g.Gather(root, data)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](all)
}

// AllGatherValue is AllGather for values that JSON can carry.
func AllGatherValue[T any](g *Group, v T) ([]T, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	all, err := g.AllGather(data)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](all)
}

func decode[T any](data []byte) (T, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("value from another rank: %w", err)
	}
	return v, nil
}

func decodeAll[T any](all [][]byte) ([]T, error) {
	if all == nil {
		return nil, nil
	}
	values := make([]T, len(all))
	for i, data := range all {
		var err error
		if values[i], err = decode[T](data); err != nil {
			return nil, err
		}
	}
	return values, nil
}
