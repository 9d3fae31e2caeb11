package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/value"
)

// Dataset is how one data set of an evaluation is judged.
type Dataset struct {
	Name, Filter   string
	Expected       *float64 // nil: not given, and nothing is judged
	Alpha, Beta    *float64
	Sigma          *float64
	Samples        *int
	HigherIsBetter *bool
}

func (r *reader) datasets(v *conf.Value) (all []Dataset) {
	if v != nil && v.Kind != conf.List {
		r.add(v, "metadata.accuracy.datasets", "wanted a list of data sets, got %s", shown(v))
	}
	for _, element := range v.List() {
		all = append(all, r.dataset(element))
	}
	return all
}

func (r *reader) dataset(v *conf.Value) Dataset {
	d := Dataset{Name: "gsm8k", Filter: "flexible-extract"}
	if v.Kind != conf.Map {
		r.add(v, v.Path(), "wanted a map with name and expected_value, got %s", shown(v))
		return d
	}
	const onlyTest = "hypothesis_test"
	samples, test := 0, onlyTest
	r.part(v, keys{
		{path: "dataset_name", to: text{&d.Name}}, // real files have this where the original reads name
		{path: "name", to: text{&d.Name}},
		{path: "expected_value", to: optionalNumber{&d.Expected, value.Number(-most, most)}},
		{path: "threshold_type", to: text{&test}},
		{path: "threshold", to: anything{new(*conf.Value)}},
		{path: "filter_type", to: text{&d.Filter}},
		{path: "alpha", to: share(&d.Alpha)},
		{path: "beta", to: share(&d.Beta)},
		{path: "sigma", to: optionalNumber{&d.Sigma, value.Number(0, most)}},
		{path: "num_samples", to: positive(&samples)},
		{path: "higher_is_better", to: optionalFlag{&d.HigherIsBetter}},
	})
	d.Name = strings.ToLower(d.Name)
	if test != onlyTest {
		r.add(v.Get("threshold_type"), v.Path()+".threshold_type", "wanted %s, the only kind of test, got %q", onlyTest,
			test)
	}
	if samples > 0 {
		d.Samples = &samples
	}
	return d
}

// share takes a probability of a test. Beyond the bounds, normal quantiles become infinite, and no score can be held
// against them.
func share(to **float64) optionalNumber {
	return optionalNumber{to, value.Number(1e-9, 1-1e-9)}
}

// Task is one evaluation.
type Task struct {
	Name, Model, ArgsExtra string
	Extra                  []Argument // in the order of the file
}

// Argument is a further argument of an evaluation.
type Argument struct{ Key, Value string }

// taskName is the name of a task of lm_eval. It becomes part of a file's name.
var taskName = lazyre.New(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// tasks reads the tasks of the section accuracy in their newer and older form. enabled tasks need a model.
func (r *reader) tasks(o *older, enabled bool) (list []Task) {
	const path = "accuracy.tasks"
	v := o.tasks
	switch {
	case v == nil:
	case v.Kind == conf.Map:
		for _, name := range v.Keys() {
			list = append(list, r.task(name, v.Get(name)))
		}
	case v.Kind == conf.String:
		for name := range strings.SplitSeq(v.Text(), ",") {
			if name = strings.TrimSpace(name); name != "" {
				list = append(list, Task{Name: name, Model: o.taskModel, ArgsExtra: o.taskArgs})
			}
		}
	default:
		r.add(v, path, "wanted a map of tasks, or their names with commas, got %s", shown(v))
	}
	for _, t := range list {
		if !taskName.MatchString(t.Name) {
			r.add(v, path, "wanted the name of a task, got %q", clip(t.Name))
		}
		if enabled && t.Model == "" {
			r.add(v, path, "the task %s lacks a model (local-completions, local-chat-completions)", clip(t.Name))
		}
	}
	return list
}

func (r *reader) task(name string, v *conf.Value) Task {
	t := Task{Name: name}
	if v.Kind != conf.Map {
		r.add(v, v.Path(), "wanted a map with model, model_args_extra, extra_kwargs, got %s", v.Kind)
		return t
	}
	var extra *conf.Value
	r.part(v, keys{
		{path: "model", to: text{&t.Model}},
		{path: "model_args_extra", to: text{&t.ArgsExtra}},
		{path: "extra_kwargs", to: mapping{&extra}},
	})
	const onIfAbsent = "fewshot_as_multiturn"
	for _, k := range extra.Keys() {
		switch x := extra.Get(k); {
		case x.Kind == conf.List || x.Kind == conf.Map || x.Kind == conf.Null:
			r.add(x, x.Path(), "wanted a text, a number or a boolean, got %s", x.Kind)
		case x.Kind == conf.Bool && !x.Bool() && k != onIfAbsent:
			// lm_eval takes --apply_chat_template=false for a text, and so for true, and no flag has a value.
		default:
			t.Extra = append(t.Extra, Argument{k, scalarText(x)})
		}
	}
	return t
}

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

// parallel takes the workers of a role as InferenceX gives them: by their number, and their parallel sizes.
type parallel struct {
	workers, tp, pp, pcp, dcp int
	hardware                  string
}

// few is a whole number of machines, or of parts of them.
func few(to *int) whole { return whole{to, value.Whole(0, 1<<14)} }

func (p *parallel) keys() keys {
	return keys{
		{path: "num_worker", to: few(&p.workers)}, {path: "tp", to: few(&p.tp)}, {path: "pp", to: few(&p.pp)},
		{path: "pcp", to: few(&p.pcp)}, {path: "dcp", to: few(&p.dcp)}, {path: "hardware", to: text{&p.hardware}},
	}
}

// role takes the keys of one role in the section resources: its nodes and workers, as srtctl has them, or a map of
// parallel sizes, as InferenceX has it.
type role struct {
	name     string
	pool     *Pool
	parallel *conf.Value // nil: by nodes and workers
	given    bool
}

func (o *role) keys() keys {
	return keys{
		{path: o.name, to: anything{&o.parallel}},
		{path: o.name + "_nodes", to: few(&o.pool.Nodes)},
		{path: o.name + "_workers", to: few(&o.pool.Workers)},
		{path: "gpus_per_" + o.name, to: few(&o.pool.GPUsPerWorker)},
	}
}

// pools reads the section resources.
func (r *reader) pools(v *conf.Value) *Resources {
	if v == nil {
		return nil
	}
	one := Pool{Workers: 1}
	res := &Resources{Prefill: one, Decode: one, Agg: one}
	prefill, decode := &role{name: "prefill", pool: &res.Prefill}, &role{name: "decode", pool: &res.Decode}
	agg := &role{name: "agg", pool: &res.Agg}
	roles := []*role{prefill, decode, agg}
	common := parallel{workers: 1, tp: 1, pp: 1, pcp: 1, dcp: 1}
	schema := keys{{path: "gpus_per_node", to: few(&res.GPUsPerNode)}}
	for _, o := range roles {
		schema = append(schema, o.keys()...)
	}
	r.part(v, append(schema, common.keys()...))
	for _, o := range roles {
		o.given = slices.ContainsFunc(o.keys(), func(k key) bool { return v.Has(k.path) })
		switch {
		case !o.given:
			*o.pool = Pool{}
		case v.Has(o.name):
			r.spread(v, o, common, res.GPUsPerNode)
		default:
			r.divide(v, o, res.GPUsPerNode)
		}
	}
	switch {
	case agg.given && (prefill.given || decode.given):
		r.add(v, "resources", "wanted agg, or prefill and decode, got both")
	case prefill.given != decode.given:
		r.add(v, "resources", "prefill and decode go together")
	}
	if (res.Prefill.Hardware == "") != (res.Decode.Hardware == "") {
		r.add(v, "resources", "hardware of one role without the other's")
	}
	if v.Has("decode_nodes") && res.Decode.Nodes == 0 && !v.Has("gpus_per_decode") {
		res.Decode.GPUsPerWorker = res.Prefill.GPUsPerWorker // on the same nodes
	}
	return res
}

// divide finds the GPUs of a worker of a role that is given by nodes and workers.
func (r *reader) divide(v *conf.Value, o *role, perNode int) {
	switch p := o.pool; {
	case p.Workers == 0:
		r.add(v.Get(o.name+"_workers"), "resources."+o.name+"_workers", "wanted at least 1, got 0")
	case p.GPUsPerWorker == 0 && perNode == 0:
		r.add(v, "resources.gpus_per_node", "missing resources.gpus_per_node, of which the GPUs of a worker follow")
	case p.GPUsPerWorker == 0:
		p.GPUsPerWorker = p.Nodes * perNode / p.Workers
	}
}

// spread finds the nodes of a role that is given by parallel sizes: each worker has tp*pp*pcp GPUs; dcp shares those of
// tp. Sizes that all roles have in common stand beside them.
func (r *reader) spread(v *conf.Value, o *role, own parallel, perNode int) {
	path := "resources." + o.name
	section := o.parallel
	if section == nil || section.Kind != conf.Map {
		section = v.Get(o.name)
		r.add(section, path, "wanted a map with %s, got %s", strings.Join(own.keys().names(""), ", "), shown(section))
		*o.pool = Pool{}
		return
	}
	own.hardware = ""
	r.part(section, own.keys())
	for _, k := range own.keys() {
		if section.Has(k.path) && v.Has(k.path) {
			r.add(section.Get(k.path), path+"."+k.path, "is given here and as resources.%s, on line %d", k.path,
				v.Get(k.path).Line)
		}
	}
	if own.dcp > 0 && own.tp%own.dcp != 0 {
		r.add(section, path+".dcp", "dcp %d does not divide tp %d", own.dcp, own.tp)
	}
	*o.pool = Pool{Workers: own.workers, GPUsPerWorker: own.tp * own.pp * own.pcp, Hardware: own.hardware}
	if perNode > 0 {
		o.pool.Nodes = (o.pool.GPUs() + perNode - 1) / perNode
	}
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

// expectations reads metadata.references: METRIC or METRIC@CONCURRENCY to
// [target, lower, upper].
func (r *reader) expectations(v *conf.Value) (list []Reference) {
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
