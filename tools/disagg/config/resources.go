package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/conf"
)

// Pool is the servers of one role.
type Pool struct {
	Nodes, Workers, GPUsPerWorker int
	Hardware                      string // empty: as the other role
}

// GPUs is how many GPUs the pool has.
func (p Pool) GPUs() int { return p.Workers * p.GPUsPerWorker }

// Resources are the pools of a job: either one of aggregated servers, or prefill
// and decode.
type Resources struct {
	GPUsPerNode          int
	Prefill, Decode, Agg Pool
}

// Nodes is the number of nodes of all pools.
func (r Resources) Nodes() int { return r.Prefill.Nodes + r.Decode.Nodes + r.Agg.Nodes }

// The keys of the section resources. A role is given by nodes and workers, as
// srtctl has it, or by a map of its parallel sizes, as InferenceX has it.
var (
	roles     = []string{"prefill", "decode", "agg"}
	poolKeys  = []string{"num_worker", "tp", "pp", "pcp", "dcp", "hardware"}
	gpuFields = func() (list []string) {
		list = append(list, "gpus_per_node")
		for _, role := range roles {
			list = append(list, role, role+"_nodes", role+"_workers", "gpus_per_"+role)
		}
		return append(list, poolKeys...)
	}()
)

// resources reads the section. Its mistakes become problems of r.
func (r *reader) resources() *Resources {
	v := r.values["resources"]
	if v == nil {
		return nil
	}
	for _, name := range v.Keys() {
		if !slices.Contains(gpuFields, name) {
			at := v.Get(name)
			r.strange(at, at.Path(), name, func() string { return conf.Suggestion(name, gpuFields) })
		}
	}
	res := &Resources{GPUsPerNode: r.count(v, "gpus_per_node", 0)}
	pools := map[string]*Pool{"prefill": &res.Prefill, "decode": &res.Decode, "agg": &res.Agg}
	given := map[string]bool{}
	for _, role := range roles {
		given[role] = slices.ContainsFunc([]string{role, role + "_nodes", role + "_workers", "gpus_per_" + role}, v.Has)
		if given[role] {
			*pools[role] = r.pool(v, role, res.GPUsPerNode)
		}
	}
	switch {
	case given["agg"] && (given["prefill"] || given["decode"]):
		r.add(v, "resources", "wanted agg, or prefill and decode, got both")
	case given["prefill"] != given["decode"]:
		r.add(v, "resources", "prefill and decode go together")
	}
	if a, b := res.Prefill.Hardware, res.Decode.Hardware; (a == "") != (b == "") {
		r.add(v, "resources", "hardware of one role without the other's")
	}
	r.inherit(v, res)
	return res
}

// inherit gives a decode pool that has no nodes the GPUs per worker of prefill.
func (r *reader) inherit(v *conf.Value, res *Resources) {
	if !v.Has("decode_nodes") || res.Decode.Nodes != 0 || v.Has("gpus_per_decode") {
		return
	}
	res.Decode.GPUsPerWorker = res.Prefill.GPUsPerWorker
}

// pool reads a role.
func (r *reader) pool(v *conf.Value, role string, perNode int) Pool {
	if v.Has(role) {
		return r.parallel(v, role, perNode)
	}
	p := Pool{Nodes: r.count(v, role+"_nodes", 0), Workers: r.count(v, role+"_workers", 1),
		GPUsPerWorker: r.count(v, "gpus_per_"+role, 0)}
	if p.Workers == 0 {
		r.add(v.Get(role+"_workers"), "resources."+role+"_workers", "wanted at least 1, got 0")
		return p
	}
	if p.GPUsPerWorker == 0 {
		if perNode == 0 {
			r.add(v, "resources.gpus_per_node", "missing resources.gpus_per_node, of which the GPUs of a worker follow")
		}
		p.GPUsPerWorker = p.Nodes * perNode / p.Workers
	}
	return p
}

// parallel reads a role from its parallel sizes: each worker has tp*pp*pcp GPUs;
// dcp shares those of tp.
func (r *reader) parallel(v *conf.Value, role string, perNode int) Pool {
	section := v.Get(role)
	path := "resources." + role
	if section.Kind != conf.Map {
		r.add(section, path, "wanted a map with %s, got %s", strings.Join(poolKeys, ", "), shown(section))
		return Pool{}
	}
	for _, name := range section.Keys() {
		at := section.Get(name)
		switch {
		case !slices.Contains(poolKeys, name):
			r.strange(at, at.Path(), name, func() string { return conf.Suggestion(name, poolKeys) })
		case v.Has(name):
			r.add(at, path+"."+name, "is given here and as resources.%s, on line %d", name, v.Get(name).Line)
		}
	}
	size := func(name string) int {
		if section.Has(name) {
			return r.count(section, name, 1)
		}
		return r.count(v, name, 1)
	}
	tp, dcp := size("tp"), size("dcp")
	if dcp > 0 && tp%dcp != 0 {
		r.add(section, path+".dcp", "dcp %d does not divide tp %d", dcp, tp)
	}
	p := Pool{Workers: size("num_worker"), GPUsPerWorker: tp * size("pp") * size("pcp")}
	r.scalar(section, "hardware", conf.String, func(x *conf.Value) { p.Hardware = x.Text() })
	if perNode > 0 {
		p.Nodes = (p.GPUs() + perNode - 1) / perNode
	}
	return p
}

// count reads a small whole number.
func (r *reader) count(v *conf.Value, name string, otherwise int) int {
	const largest = 1 << 14
	x := v.Get(name)
	switch {
	case x == nil || x.Kind == conf.Null:
		return otherwise
	case x.Kind != conf.Int || x.Int() < 0 || x.Int() > largest:
		r.add(x, x.Path(), "wanted a whole number from 0 to %d, got %s", largest, shown(x))
		return otherwise
	}
	return int(x.Int())
}

// doubling lists the levels from start on, each twice the one before, up to end.
func (r *reader) doubling() []int {
	start, end := r.int("benchmark.concurrency_start", 0), r.int("benchmark.concurrency_end", 0)
	if start == 0 || end < start {
		path := "benchmark.concurrency_end"
		r.add(r.values[path], path, "wanted concurrency_start and concurrency_end, the first at most the second, got %d and %d", start, end)
		return nil
	}
	var list []int
	for level := start; level <= end; level *= 2 {
		list = append(list, level)
	}
	return list
}

// Reference is what a figure is expected to be: from Target*(1+Lower) to
// Target*(1+Upper), both included, as ReFrame has it.
type Reference struct {
	Metric       string
	Concurrency  int // 0: of every level
	Target       float64
	Lower, Upper *float64 // nil: no bound
}

// String returns the key of the reference in a config.
func (f Reference) String() string {
	if f.Concurrency == 0 {
		return f.Metric
	}
	return f.Metric + "@" + strconv.Itoa(f.Concurrency)
}

// Judge reports whether a value is within the bounds, and says them.
func (f Reference) Judge(value float64) (bool, string) {
	low, high := "no bound", "no bound"
	ok := true
	if f.Lower != nil {
		limit := f.Target * (1 + *f.Lower)
		low, ok = fmt.Sprintf("%g", limit), value >= limit
	}
	if f.Upper != nil {
		limit := f.Target * (1 + *f.Upper)
		high, ok = fmt.Sprintf("%g", limit), ok && value <= limit
	}
	return ok, low + " to " + high
}

// references reads metadata.references: METRIC or METRIC@CONCURRENCY to
// [target, lower, upper].
func (r *reader) references() []Reference {
	v := r.values["metadata.references"]
	var list []Reference
	for _, name := range v.Keys() {
		entry := v.Get(name)
		f := Reference{Metric: name}
		if metric, level, ok := strings.Cut(name, "@"); ok {
			f.Metric = metric
			var err error
			if f.Concurrency, err = strconv.Atoi(level); err != nil || f.Concurrency < 1 {
				r.add(entry, entry.Path(), "wanted METRIC or METRIC@CONCURRENCY, got %q", name)
				continue
			}
		}
		fields := entry.List()
		if len(fields) < 3 || len(fields) > 4 || !isFinite(fields[0]) {
			r.add(entry, entry.Path(), "wanted [target, lower, upper], such as [50000, -0.1, 0.3], with null for no bound")
			continue
		}
		f.Target = fields[0].Float()
		for i, to := range []**float64{&f.Lower, &f.Upper} {
			if x := fields[i+1]; isFinite(x) {
				share := x.Float()
				*to = &share
			} else if x.Kind != conf.Null {
				r.add(entry, entry.Path(), "wanted a share or null as a bound, got %s", shown(x))
			}
		}
		if f.Lower != nil && f.Upper != nil && f.Target**f.Lower > f.Target**f.Upper {
			_, bounds := f.Judge(f.Target)
			r.add(entry, entry.Path(), "no figure is within %s", bounds)
		}
		list = append(list, f)
	}
	return list
}
