package kvbench

import (
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/model"
)

// Selection are the options that say what a command looks at.
type Selection struct {
	Model        string   `name:"model" required:"" completes:"models" placeholder:"MODEL" help:"The config.json of a model, a model file of your own, or a name (perigee kvbench models lists those known)."`
	ModelConfig  string   `name:"model_config" completes:"configs" placeholder:"CONFIG" help:"A model config file (YAML), or the name of a shipped one."`
	ModelConfigs []string `name:"model_configs" sep:"none" placeholder:"GLOB" help:"Several model config files, by a pattern such as 'configs/*.yaml'; without such files, shipped ones by their names."`
	More         []string `arg:"" optional:"" name:"config" help:"More model configs, as the shell makes them of a pattern without quotes."`
	Accounting   string   `name:"accounting" enum:",kvbench,exact" default:"" placeholder:"NAME" help:"How sizes are counted: kvbench (as NIXL's KVBench does; the default for models that it knows) or exact (what one GPU moves)."`
	Serving      string   `name:"serving" enum:"none,vllm,sglang,trtllm" default:"none" placeholder:"ENGINE" help:"Count exactly what an engine moves, in its pages: vllm, sglang or trtllm. With none, the default, what the model keeps."`

	model.Copies
	StateDType string `name:"state_dtype" enum:",float32,bfloat16" default:"" placeholder:"NAME" help:"Precision of states (Mamba, DeltaNet): float32 or bfloat16 (default: that of the file, the class or the engine)."`

	Overrides
}

// each calls use for the plan of every selected config, one after the other. A
// config that fails does not stop the others; each has a chance to be used
// before the error.
func (s *Selection) each(streams cli.Streams, use func(*BlockPlan) error) error {
	if err := s.Overrides.check(); err != nil {
		return err
	}
	a, err := loadModel(s.Model)
	if err != nil {
		return err
	}
	names, failures, err := s.configs()
	if err != nil {
		return err
	}
	tried := len(names) + len(failures)
	var said remarks
	defer func() { said.write(streams.Err) }()
	for _, name := range names {
		p, err := s.plan(a, name)
		if err == nil {
			if err = use(p); err == nil {
				said.add(p)
			}
		}
		if err != nil {
			failures = append(failures, named(name, err))
		}
	}
	return conclude(failures, tried, streams.Err)
}

// named makes sure that an error names the config.
func named(config string, err error) error {
	if strings.HasPrefix(err.Error(), config) {
		return err
	}
	return fmt.Errorf("%s: %w", config, err)
}

// conclude makes one error of those of several configs. All are told, once.
func conclude(failures []error, tried int, w io.Writer) error {
	if len(failures) == 0 {
		return nil
	}
	if tried == 1 {
		return failures[0]
	}
	for _, err := range failures {
		if !cli.IsReported(err) {
			cli.PrintError(w, err)
		}
	}
	return fault.New(fault.KindOf(failures[0]), "%d of %d model configs failed", len(failures), tried)
}

func (s *Selection) plan(m *model.Model, name string) (*BlockPlan, error) {
	c, err := LoadConfig(name)
	if err != nil {
		return nil, err
	}
	serving, err := model.ParseServing(s.Serving)
	if err != nil {
		return nil, err
	}
	return newPlan(m, s.Overrides.apply(c), name, s.Accounting,
		model.Options{Serving: serving, StateDType: s.StateDType}, s.KVReplicas)
}

// loadModel is model.Load with a hint for those who have the original's files
// or the names of public cards in mind.
func loadModel(name string) (*model.Model, error) {
	a, err := model.Load(name)
	if err == nil {
		return a, nil
	}
	stem := strings.TrimPrefix(filepath.Base(name), "model_")
	for _, ending := range []string{".yaml", ".yml", ".json", ".toml"} {
		stem = strings.TrimSuffix(stem, ending)
	}
	if shipped, ok := model.Similar(stem); ok && conf.Readable(name) { // not an id in the local cache
		err = fault.New(fault.KindOf(err), "%w", err).WithHint("this model is part of perigee: --model %s", shipped)
	}
	return nil, err
}

// configs lists the selected configs: the one, then those of the patterns in
// order, none twice. A pattern that fits nothing is a failure beside them.
func (s *Selection) configs() (names []string, failures []error, err error) {
	if s.ModelConfig == "" && len(s.ModelConfigs)+len(s.More) == 0 {
		if s.Overrides.any() {
			return []string{fromOptions}, nil, nil
		}
		return nil, nil, usage("--model_config or --model_configs is missing").
			WithHint("a file, or one of the shipped %s; --tp, --pp, --isl and others replace what it says, or are enough by themselves", strings.Join(ConfigNames(), ", "))
	}
	add := func(name string) {
		if !slices.ContainsFunc(names, func(n string) bool { return filepath.Clean(n) == filepath.Clean(name) }) {
			names = append(names, name)
		}
	}
	if s.ModelConfig != "" {
		add(s.ModelConfig)
	}
	for _, pattern := range slices.Concat(s.ModelConfigs, s.More) {
		found, err := expand(pattern)
		if err != nil {
			failures = append(failures, err)
		}
		for _, name := range found {
			add(name)
		}
	}
	return names, failures, nil
}

// expand returns the files, or else the shipped configs, that fit a pattern.
func expand(pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{pattern}, nil
	}
	files, err := filepath.Glob(pattern)
	if errors.Is(err, filepath.ErrBadPattern) {
		return nil, usage("--model_configs: %q is no pattern: %v", pattern, err)
	}
	if len(files) == 0 {
		files = slices.DeleteFunc(ConfigNames(), func(name string) bool {
			fits, _ := path.Match(pattern, name) // Glob has seen that it is a pattern
			return !fits
		})
	}
	if len(files) == 0 {
		return nil, fault.New(fault.Input, "--model_configs: no file fits %q", pattern).
			WithHint("check the spelling; a relative pattern starts at the current folder, and the shell must not expand it")
	}
	slices.Sort(files)
	return files, nil
}
