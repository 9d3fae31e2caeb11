package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/secret"
)

// Environment holds the variables that were set of the libraries which move bytes: UCX_*, NIXL_*, FI_* and NCCL_*.
type Environment struct {
	Variables map[string]string `json:"variables,omitempty"` // that all ranks had alike
	// ByRank are the others: each value with its ranks, in their order. The rest had none.
	ByRank map[string][]ValueAt `json:"by_rank,omitempty"`
	// Withheld are the names that look secret. Their values are not kept.
	Withheld []string `json:"withheld,omitempty"`
}

// ValueAt is the value of a variable at some ranks.
type ValueAt struct {
	Value string `json:"value"`
	Ranks []int  `json:"ranks"`
}

var (
	libraries = lazyre.New(`^(UCX|NIXL|FI|NCCL)_`)
	// beside matches the names of what changes no figure, or is of one host: logs, telemetry, addresses, paths.
	beside = lazyre.New(`_(LOG|DEBUG|TELEMETRY|STATS|PROFILE|DUMP|ETCD)(_|$)|` +
		`_(DIR|PATH|FILE|LIBRARY)$|^UCX_PROTO_INFO$`)
	// sources name where a library takes code or settings from.
	sources = []string{"NIXL_PLUGIN_DIR", "NIXL_CONFIG_FILE", "UCX_MODULE_DIR", "UCX_CONFIG_DIR", "FI_PROVIDER_PATH"}
	// kept are the variables that results without an [Environment] have among the parameters of the engine.
	kept = []string{"UCX_TLS", "UCX_NET_DEVICES", "UCX_RNDV_SCHEME", "UCX_RNDV_THRESH", "UCX_ZCOPY_THRESH",
		"UCX_BCOPY_BW", "UCX_MAX_RMA_RAILS", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY", "UCX_RMA_PPLN_ENABLE",
		"NIXL_PLUGIN_DIR", "FI_PROVIDER"}
)

// IsSetting reports whether a variable of this name may change what is measured, so that results are compared by it.
func IsSetting(name string) bool {
	return libraries.MatchString(name) && !secret.Variable(name) && (IsSource(name) || !beside.MatchString(name))
}

// IsSource reports whether a variable says where a library takes code or settings from, which a result does not choose
// for a repetition.
func IsSource(name string) bool { return slices.Contains(sources, name) }

// VariablesOf are those of an environment (NAME=VALUE) that results keep; empty values are of names that look secret.
func VariablesOf(environ []string) map[string]string {
	all := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case value == "" || !libraries.MatchString(name):
		case secret.Variable(name):
			all[name] = ""
		default:
			all[name] = secret.Addresses(value)
		}
	}
	return all
}

// EnvironmentOf joins what VariablesOf returned at each rank; nil stands for the same as at rank 0.
func EnvironmentOf(ranks []map[string]string) *Environment {
	e := &Environment{Variables: map[string]string{}, ByRank: map[string][]ValueAt{}}
	for r, variables := range ranks {
		if variables == nil {
			variables = ranks[0]
		}
		for name, value := range variables {
			if value == "" {
				e.Withheld = append(e.Withheld, name)
				continue
			}
			list := e.ByRank[name]
			i := slices.IndexFunc(list, func(v ValueAt) bool { return v.Value == value })
			if i < 0 {
				list, i = append(list, ValueAt{Value: value}), len(list)
			}
			list[i].Ranks = append(list[i].Ranks, r)
			e.ByRank[name] = list
		}
	}
	slices.Sort(e.Withheld)
	e.Withheld = slices.Compact(e.Withheld)
	for name, list := range e.ByRank {
		if len(list[0].Ranks) == len(ranks) {
			e.Variables[name] = list[0].Value
			delete(e.ByRank, name)
		}
	}
	return e
}

// Setting is the value that a variable had in the run, in words where ranks had different ones; "" where it was not
// set, or is not kept (see [Document.Keeps]).
func (d *Document) Setting(name string) string {
	switch e := d.Environment; {
	case e == nil && d.Engine == nil:
		return ""
	case e == nil:
		return d.Engine.Params[name]
	case e.ByRank[name] != nil:
		return byRank(e.ByRank[name])
	default:
		return e.Variables[name]
	}
}

func byRank(list []ValueAt) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprintf("%s (ranks %s)", v.Value, Ranges(v.Ranks))
	}
	return "by rank: " + strings.Join(texts, "; ")
}

// Keeps reports whether the result would have a variable of this name if it was set.
func (d *Document) Keeps(name string) bool {
	return d.Environment != nil && !secret.Variable(name) || slices.Contains(kept, name)
}

// Settings are the names of the variables of the run that may have changed what it measured, sorted.
func (d *Document) Settings() []string {
	all := map[string]string{}
	switch e := d.Environment; {
	case e != nil:
		maps.Copy(all, e.Variables)
		for name := range e.ByRank {
			all[name] = ""
		}
	case d.Engine != nil:
		all = d.Engine.Params
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return !IsSetting(name) })
}

// EngineSettings are the parameters of the engine, and with NIXL the variables that may have changed what was measured.
func (d *Document) EngineSettings() map[string]string {
	if d.Engine == nil {
		return nil
	}
	all := maps.Clone(d.Engine.Params)
	if !d.ObeysVariables() {
		return all
	}
	if all == nil {
		all = map[string]string{}
	}
	for _, name := range d.Settings() {
		all[name] = d.Setting(name)
	}
	return all
}

// ObeysVariables reports whether a library that reads the environment has moved the bytes.
func (d *Document) ObeysVariables() bool { return d.Engine != nil && d.Engine.Library != "" }

// Unkept says which settings are not known to be the same in two results, since one does not hold them; "" if all are.
func Unkept(a, b *Document) string {
	if !a.ObeysVariables() || !b.ObeysVariables() {
		return ""
	}
	const earlier = "by an earlier perigee, which kept few of the variables UCX_*, NIXL_*, FI_* and NCCL_*"
	switch {
	case a.Environment == nil && b.Environment == nil:
		return "both were made " + earlier
	case a.Environment == nil:
		return "OLD was made " + earlier
	case b.Environment == nil:
		return "NEW was made " + earlier
	}
	names := slices.Concat(a.Environment.Withheld, b.Environment.Withheld)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return ""
	}
	return "values of names that look secret are not: " + strings.Join(names, ", ")
}

// Ranges writes ascending ranks shortly: 0-3, 7.
func Ranges(ranks []int) string { return strings.Join(plaintext.Runs(ranks, "-"), ", ") }
