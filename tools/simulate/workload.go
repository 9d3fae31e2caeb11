package simulate

import (
	"perigee/internal/atomicfile"
	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// patternKeys are the keys of a traffic pattern. Only those that say what is to be
// prepared matter here.
var patternKeys = []conf.Field{
	{Name: "matrix_file", Type: "path", Required: true},
	{Name: "shards", Type: "int", Default: 1},
	{Name: "mem_type", Type: "any"},
	{Name: "xfer_op", Type: "enum", Enum: []string{"WRITE", "READ"}, Default: "WRITE"},
	{Name: "sleep_before_launch_sec", Type: "any"},
	{Name: "sleep_after_launch_sec", Type: "any"},
	{Name: "storage_ops", Type: "any"},
	{Name: "metadata", Type: "any"},
}

// configKeys are those of the configurations of ct-perftest and sequential-ct-perftest.
var configKeys = conf.Schema{
	{Name: "traffic_patterns", Type: "list", Elem: &conf.Field{Type: "map", Fields: patternKeys}},
	{Name: "traffic_pattern", Type: "map", Fields: patternKeys},
	{Name: "iters", Type: "any", Aliases: []string{"n_iters"}},
	{Name: "isolation_iters", Type: "any", Aliases: []string{"n_isolation_iters"}},
	{Name: "warmup_iters", Type: "any"},
	{Name: "meet", Type: "any"},
	{Name: "start", Type: "any"},
	{Name: "isolation_gap", Type: "any"},
	{Name: "generator", Type: "any"},
}

// loadPatterns reads the traffic patterns of a configuration file.
func loadPatterns(path string) ([]load.Pattern, error) {
	doc, err := conf.Load(path)
	if err != nil {
		return nil, err
	}
	if doc, err = configKeys.Check(doc); err != nil {
		return nil, err
	}
	items := doc.Get("traffic_patterns").List()
	if one := doc.Get("traffic_pattern"); one != nil {
		items = append(items, one)
	}
	if len(items) == 0 {
		return nil, fault.New(fault.Input, "%s has no traffic pattern", path).
			WithHint("wanted is a configuration of ct-perftest or sequential-ct-perftest")
	}
	var patterns []load.Pattern
	matrices := map[string]*matrix.Matrix{} // each file is read once
	for _, item := range items {
		path := item.Get("matrix_file").Text()
		m := matrices[path]
		if m == nil {
			if m, err = readMatrix(path); err != nil {
				return nil, err
			}
			matrices[path] = m
		}
		if first := patterns; len(first) > 0 && first[0].Matrix.Size() != m.Size() {
			return nil, item.Get("matrix_file").Errorf("the matrix is for %d ranks, the first one for %d", m.Size(),
				first[0].Matrix.Size())
		}
		op, err := nixl.ParseOp(item.Get("xfer_op").Text())
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, load.Pattern{
			Name: item.Path(), Matrix: m, Op: op, Shards: int(item.Get("shards").Int()),
		})
	}
	return patterns, nil
}

func readMatrix(path string) (*matrix.Matrix, error) {
	f, err := atomicfile.Open(path)
	if err != nil {
		return nil, fault.New(fault.Input, "matrix: %w", err)
	}
	defer f.Close()
	return matrix.ReadText(path, f)
}

const (
	fanOut  = 4       // decode ranks to which a prefill rank sends
	cellLen = 8 << 20 // bytes of each message
)

// synthetic is a KV cache on its way: the ranks of the first half, which prefill,
// send to a few of the second half, which decode.
func synthetic(n int) ([]load.Pattern, error) {
	m := matrix.New(n)
	half := max(n/2, 1)
	for from := range half {
		for k := range min(fanOut, n-half) {
			if err := m.Set(from, half+(from+k)%(n-half), cellLen); err != nil {
				return nil, err
			}
		}
	}
	return []load.Pattern{{Name: "synthetic", Matrix: m, Shards: 1}}, nil
}
