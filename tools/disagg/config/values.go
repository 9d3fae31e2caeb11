package config

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/conf"
	"perigee/tools/disagg/benchlog"
)

func itoa(n int) string { return strconv.Itoa(n) }

func orUnknown(s string) string { return cmp.Or(s, "unknown") }

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// timeText formats seconds as Slurm reads them.
func timeText(seconds int) string {
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

// pairs splits K=V words and drops the others, as the launcher does.
func pairs(s string) []string {
	return slices.DeleteFunc(strings.Fields(s), func(word string) bool { return strings.IndexByte(word, '=') < 1 })
}

// plainMap returns the values of a map as text, "" for nothing.
func plainMap(v *conf.Value) map[string]string {
	m := map[string]string{}
	for _, name := range v.Keys() {
		m[name] = ""
		if x := v.Get(name); x.Kind != conf.Null {
			m[name] = x.Written() // True, 1.0, or a commit such as 1234e56
		}
	}
	return m
}

// scalarText returns a scalar as text, "" for nothing.
func scalarText(v *conf.Value) string {
	switch v.Kind {
	case conf.String:
		return v.Text()
	case conf.Bool:
		return strconv.FormatBool(v.Bool())
	case conf.Int, conf.Float:
		return v.Written()
	}
	return ""
}

// levels reads concurrency_list: text with blanks between, one integer, or a
// list. 16x32x64 is the notation of srtctl.
func (r *reader) levels(path string) []int {
	v := r.values[path]
	if v == nil {
		return nil
	}
	var words []string
	switch v.Kind {
	case conf.String:
		words = strings.Fields(v.Text())
		if len(words) == 1 && strings.Trim(words[0], "0123456789x") == "" {
			words = strings.Split(words[0], "x")
		}
	case conf.Int:
		words = []string{levelText(v)}
	case conf.List:
		for _, element := range v.List() {
			words = append(words, levelText(element))
		}
	default:
		r.add(v, path, "wanted blank-separated integers, got %s", shown(v))
		return nil
	}
	if len(words) == 0 {
		r.add(v, path, "concurrency_list is empty")
	}
	if len(words) > mostLevels {
		r.add(v, path, "wanted at most %d levels, got %d", mostLevels, len(words))
		return nil
	}
	var list []int
	for _, word := range words {
		n, err := strconv.Atoi(word)
		switch {
		case err != nil:
			r.add(v, path, "%q is not an integer (blank-separated)", clip(word))
		case n < 1 || n > most:
			r.add(v, path, "wanted levels from 1 to %d, got %d", most, n)
		default:
			list = append(list, n)
		}
	}
	return list
}

// levelText is scalarText with a whole number in decimal, however it is written.
func levelText(v *conf.Value) string {
	if v.Kind == conf.Int {
		return itoa(int(v.Int()))
	}
	return scalarText(v)
}

// Dataset is how one data set of an evaluation is judged.
type Dataset struct {
	Name, Filter   string
	Expected       *float64 // nil: not given, and nothing is judged
	Threshold      string   // the kind of test
	Alpha, Beta    *float64
	Sigma          *float64
	Samples        *int
	HigherIsBetter *bool
}

var datasetKeys = []string{"name", "dataset_name", "expected_value", "threshold_type", "threshold", "filter_type",
	"alpha", "beta", "sigma", "num_samples", "higher_is_better"}

func (r *reader) datasets() []Dataset {
	const path = "metadata.accuracy.datasets"
	v := r.values[path]
	if v == nil {
		return nil
	}
	if v.Kind != conf.List {
		r.add(v, path, "wanted a list of data sets, got %s", shown(v))
		return nil
	}
	if n := v.Len(); n > mostDatasets {
		r.add(v, path, "wanted at most %d data sets, got %d", mostDatasets, n)
		return nil
	}
	var all []Dataset
	for _, element := range v.List() {
		all = append(all, r.dataset(element))
	}
	return all
}

// What is held against a log, and what is said of it.
const (
	mostLevels   = benchlog.MaxLevels
	mostDatasets = 1000
	mostName     = 200
)

func (r *reader) dataset(v *conf.Value) Dataset {
	d := Dataset{Name: "gsm8k", Filter: "flexible-extract", Threshold: "hypothesis_test"}
	if v.Kind != conf.Map {
		r.add(v, v.Path(), "wanted a map with name and expected_value, got %s", shown(v))
		return d
	}
	for _, name := range v.Keys() {
		if !slices.Contains(datasetKeys, name) {
			at := v.Get(name)
			r.strange(at, at.Path(), name, func() string { return conf.Suggestion(name, datasetKeys) })
		}
	}
	// Real files say dataset_name where the original reads name.
	for _, name := range []string{"dataset_name", "name"} {
		r.scalar(v, name, conf.String, func(x *conf.Value) { d.Name = strings.ToLower(x.Text()) })
	}
	r.scalar(v, "filter_type", conf.String, func(x *conf.Value) { d.Filter = x.Text() })
	for _, text := range []*string{&d.Name, &d.Filter} {
		if len(*text) > mostName {
			r.add(v, v.Path(), "wanted names of at most %d bytes, got %d", mostName, len(*text))
			*text = (*text)[:mostName]
		}
	}
	r.scalar(v, "expected_value", conf.Float, func(x *conf.Value) {
		e := x.Float()
		if math.Abs(e) > most {
			r.add(x, x.Path(), "wanted a number from -1e9 to 1e9, got %g", e)
			return
		}
		d.Expected = &e
	})
	r.scalar(v, "threshold_type", conf.String, func(x *conf.Value) {
		if x.Text() != "hypothesis_test" {
			r.add(x, x.Path(), "wanted hypothesis_test, the only kind of test, got %q", x.Text())
		}
	})
	r.scalar(v, "higher_is_better", conf.Bool, func(x *conf.Value) { b := x.Bool(); d.HigherIsBetter = &b })
	r.share(v, "alpha", &d.Alpha)
	r.share(v, "beta", &d.Beta)
	r.scalar(v, "sigma", conf.Float, func(x *conf.Value) {
		s := x.Float()
		if s < 0 || s > most {
			r.add(x, x.Path(), "wanted a number from 0 to 1e9, got %g", s)
			return
		}
		d.Sigma = &s
	})
	r.scalar(v, "num_samples", conf.Int, func(x *conf.Value) {
		n := int(x.Int())
		if n < 1 {
			r.add(x, x.Path(), "wanted at least 1, got %d", n)
			return
		}
		d.Samples = &n
	})
	return d
}

// least is the smallest probability that a test may have, and 1-least the largest one: normal quantiles beyond are
// nothing that a score is held against, and become infinite.
const least = 1e-9

// share reads a probability strictly between 0 and 1.
func (r *reader) share(v *conf.Value, name string, to **float64) {
	r.scalar(v, name, conf.Float, func(x *conf.Value) {
		p := x.Float()
		if p < least || p > 1-least {
			r.add(x, x.Path(), "wanted a number between 0 and 1, from %g to 1-%g, got %g", least, least, p)
			return
		}
		*to = &p
	})
}

// scalar calls use with the value of a key if it has the kind.
func (r *reader) scalar(v *conf.Value, name string, want conf.Kind, use func(*conf.Value)) {
	x := v.Get(name)
	switch {
	case x == nil || x.Kind == conf.Null:
	case want == conf.Float && x.Kind == conf.Float && !isFinite(x):
		r.add(x, x.Path(), "wanted a finite number, got %s", shown(x))
	case x.Kind == want || want == conf.Float && x.Kind == conf.Int:
		use(x)
	default:
		r.add(x, x.Path(), "wanted %s, got %s", want, shown(x))
	}
}

// taskName is the name of a task of lm_eval. It becomes part of a file's name.
var taskName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// evaluation reads the section accuracy in its newer and older form.
func (r *reader) evaluation() Evaluation {
	e := Evaluation{Enabled: r.bool("accuracy.enable_accuracy_test", false),
		Env: plainMap(r.values["accuracy.env_var"])}
	v := r.values["accuracy.tasks"]
	n := v.Len()
	if v != nil && v.Kind == conf.String {
		n = 1 + strings.Count(v.Text(), ",")
	}
	switch {
	case v == nil:
	case n > mostDatasets:
		r.add(v, "accuracy.tasks", "wanted at most %d tasks, got %d", mostDatasets, n)
	case v.Kind == conf.Map:
		for _, name := range v.Keys() {
			e.Tasks = append(e.Tasks, r.task(name, v.Get(name)))
		}
	case v.Kind == conf.String:
		for name := range strings.SplitSeq(v.Text(), ",") {
			if name = strings.TrimSpace(name); name != "" {
				e.Tasks = append(e.Tasks, Task{Name: name, Model: r.text("accuracy.model"),
					ArgsExtra: r.text("accuracy.model_args_extra")})
			}
		}
	default:
		r.add(v, "accuracy.tasks", "wanted a map of tasks, or their names with commas, got %s", shown(v))
	}
	for _, t := range e.Tasks {
		if !taskName.MatchString(t.Name) {
			r.add(v, "accuracy.tasks", "wanted the name of a task, got %q", clip(t.Name))
		}
		if e.Enabled && t.Model == "" {
			r.add(v, "accuracy.tasks", "the task %s lacks a model (local-completions, local-chat-completions)", clip(t.Name))
		}
	}
	return e
}

var taskKeys = []string{"model", "model_args_extra", "extra_kwargs"}

func (r *reader) task(name string, v *conf.Value) Task {
	t := Task{Name: name}
	if v.Kind != conf.Map {
		r.add(v, v.Path(), "wanted a map with %s, got %s", strings.Join(taskKeys, ", "), v.Kind)
		return t
	}
	for _, key := range v.Keys() {
		if !slices.Contains(taskKeys, key) {
			at := v.Get(key)
			r.strange(at, at.Path(), key, func() string { return conf.Suggestion(key, taskKeys) })
		}
	}
	r.scalar(v, "model", conf.String, func(x *conf.Value) { t.Model = x.Text() })
	r.scalar(v, "model_args_extra", conf.String, func(x *conf.Value) { t.ArgsExtra = x.Text() })
	extra := v.Get("extra_kwargs")
	if extra != nil && extra.Kind != conf.Map && extra.Kind != conf.Null {
		r.add(extra, extra.Path(), "wanted a map of arguments, got %s", extra.Kind)
	}
	if n := extra.Len(); n > mostDatasets {
		r.add(extra, extra.Path(), "wanted at most %d arguments, got %d", mostDatasets, n)
		return t
	}
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

// onIfAbsent is the argument of lm_eval that may be on where it is not given.
const onIfAbsent = "fewshot_as_multiturn"
