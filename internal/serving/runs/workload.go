package runs

import (
	"cmp"
	"math"
	"slices"

	"perigee/internal/kit/conf"
)

// Workload holds what the load generator was asked for, in tokens and numbers. NaN stands for what a report does
// not say.
type Workload struct{ TargetOSL, SystemPrompt, Question, Groups, PromptsPerGroup float64 }

// Scorers holds the settings of llm-d's inference scheduler: NaN without one, and a weight of 0 for a scorer that it
// does not use.
type Scorers struct {
	KVCache, Queue, Prefix            float64 // weights
	BlockSize, LRUCapacity, MaxBlocks float64 // of the prefix cache scorer
	Mode                              string  // of the prefix cache scorer
}

// known returns a number of at least 0 in a map without a schema, else NaN.
func known(v *conf.Value) float64 {
	if x, ok := asNumber(v); ok && x >= 0 && !math.IsInf(x, 0) {
		return x
	}
	return math.NaN()
}

// orElse replaces what is unknown.
func orElse(x *float64, other float64) {
	if math.IsNaN(*x) {
		*x = other
	}
}

// workload reads the configuration of inference-perf or GuideLLM: args of 0.1, native.config of 0.2. Other generators
// leave nothing that is known here.
func workload(config *conf.Value) Workload {
	data := config.Get("data")
	if shared := data.Get("shared_prefix"); shared != nil {
		return Workload{known(shared.Get("output_len")), known(shared.Get("system_prompt_len")),
			known(shared.Get("question_len")), known(shared.Get("num_groups")),
			known(shared.Get("num_prompts_per_group"))}
	}
	w := unknownWorkload()
	w.TargetOSL = known(data.Get("output_distribution").Get("mean"))
	if data == nil { // GuideLLM since 0.7
		data = config.Get("spec").Get("data")
	}
	if len(data.List()) == 0 {
		return w
	}
	source := data.List()[0]
	if source.Kind == conf.String { // YAML, or JSON, which is nearly the same
		var err error
		if source, err = conf.Parse("data.yaml", []byte(source.Text())); err != nil {
			return w
		}
	}
	if source.Kind != conf.Map {
		return w
	}
	prefix := source
	if buckets := source.Get("prefix_buckets").List(); len(buckets) > 0 {
		prefix = buckets[0]
	}
	return Workload{known(source.Get("output_tokens")), known(prefix.Get("prefix_tokens")),
		known(source.Get("prompt_tokens")), 1, known(prefix.Get("prefix_count"))}
}

func unknownWorkload() Workload {
	nan := math.NaN()
	return Workload{nan, nan, nan, nan, nan}
}

// workloadV02 reads the generator's own configuration, and what the standardized part adds to it. That part calls the
// prompts of a group users, but for GuideLLM prefixes. Its output length is a measured one for inference-perf.
func workloadV02(load *conf.Value) Workload {
	w := workload(load.Get("native").Get("config"))
	standard := load.Get("standardized")
	prefix := standard.Get("prefix")
	perGroup := "num_users_per_group"
	if standard.Get("tool").Text() == "guidellm" {
		perGroup = "num_prefixes"
	}
	orElse(&w.SystemPrompt, known(prefix.Get("prefix_len").Get("value")))
	orElse(&w.Groups, known(prefix.Get("num_groups")))
	orElse(&w.PromptsPerGroup, known(prefix.Get(perGroup)))
	if standard.Get("tool").Text() != "inference-perf" {
		orElse(&w.TargetOSL, known(standard.Get("output_seq_len").Get("value")))
	}
	return w
}

// scorers reads the configuration of an inference scheduler, an EndpointPickerConfig: plugins with their parameters,
// and the weights that the first scheduling profile gives them.
func scorers(config *conf.Value) Scorers {
	s := unknownScorers()
	if !config.Has("plugins") && !config.Has("schedulingProfiles") {
		return s
	}
	const prefix = "prefix-cache-scorer"
	types := map[string]string{} // of plugins that have a name beside it
	for _, p := range config.Get("plugins").List() {
		kind, parameters := p.Get("type").Text(), p.Get("parameters")
		types[p.Get("name").Text()] = kind
		if kind == prefix { // what it does not say is the scheduler's default
			s.BlockSize, s.LRUCapacity, s.MaxBlocks, s.Mode = known(parameters.Get("blockSize")),
				known(parameters.Get("lruCapacityPerServer")), known(parameters.Get("maxPrefixBlocksToMatch")),
				cmp.Or(parameters.Get("mode").Text(), "default")
			orElse(&s.BlockSize, 16)
			orElse(&s.LRUCapacity, 31250)
			orElse(&s.MaxBlocks, 256)
		}
	}
	s.KVCache, s.Queue, s.Prefix = 0, 0, 0
	profiles := config.Get("schedulingProfiles").List()
	if len(profiles) == 0 {
		return s
	}
	for _, p := range profiles[0].Get("plugins").List() {
		kind := p.Get("pluginRef").Text()
		if types[kind] != "" {
			kind = types[kind]
		}
		weight := 1.0
		if p.Has("weight") {
			weight = known(p.Get("weight"))
		}
		switch kind {
		case "kv-cache-scorer", "kv-cache-utilization-scorer": // the old and the new name
			s.KVCache = weight
		case "queue-scorer":
			s.Queue = weight
		case prefix:
			s.Prefix = weight
		}
	}
	return s
}

func unknownScorers() Scorers {
	nan := math.NaN()
	return Scorers{nan, nan, nan, nan, nan, nan, ""}
}

// scorersV02 looks for the scheduler among the components of a stack.
func scorersV02(stack *conf.Value) Scorers {
	list := stack.List()
	i := slices.IndexFunc(list, func(c *conf.Value) bool {
		config := c.Get("native").Get("config")
		return config.Has("schedulingProfiles") || config.Get("kind").Text() == "EndpointPickerConfig"
	})
	if i < 0 {
		return unknownScorers()
	}
	return scorers(list[i].Get("native").Get("config"))
}
