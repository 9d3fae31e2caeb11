package model

import (
	"cmp"
	"embed"
	"fmt"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/embedded"
	"perigee/internal/fault"
)

//go:embed models/*.yaml
var files embed.FS

// Names lists the models that are part of perigee, sorted.
func Names() []string {
	return embedded.Names(files, "models")
}

// aliases are other names of shipped models: those of NIXL's workload generator.
var aliases = map[string]string{"llama-405b": "llama3.1-405b", "qwen3-30b": "qwen3-30b-a3b"}

// Source returns the file of a shipped model. Small and capital letters, hyphens and
// underscores in its name are alike.
func Source(name string) (file string, text []byte, ok bool) {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	file = cmp.Or(aliases[name], name) + ".yaml"
	text, err := files.ReadFile("models/" + file)
	return file, text, err == nil
}

// Shipped returns a model that is part of perigee.
func Shipped(name string) (Arch, bool) {
	file, text, ok := Source(name)
	if !ok {
		return Arch{}, false
	}
	v, err := conf.Parse(file, text)
	if err != nil {
		panic(err) // so says the test of all of them
	}
	a, err := Parse(v)
	if err != nil {
		panic(err)
	}
	return a, true
}

// Load reads a model file, or takes a shipped model where the name is of one.
func Load(name string) (Arch, error) {
	if a, ok := Shipped(name); ok {
		return a, nil
	}
	if !strings.Contains(name, "/") && !conf.Readable(name) {
		return Arch{}, Unknown(name)
	}
	return LoadFile(name)
}

// Unknown is the error of a name that no shipped model has.
func Unknown(name string) *fault.Error {
	suggestion := conf.Suggestion(name, Names())
	if shipped, ok := Similar(name); ok {
		suggestion = fmt.Sprintf("; did you mean %q?", shipped)
	}
	return fault.New(fault.Usage, "there is no model %q%s", name, suggestion).
		WithHint("shipped are %s; a file of your own ends in .yaml", strings.Join(Names(), ", "))
}

// LoadFile reads a model file.
func LoadFile(path string) (Arch, error) {
	v, err := conf.Load(path)
	if err != nil {
		return Arch{}, err
	}
	return Parse(v)
}
