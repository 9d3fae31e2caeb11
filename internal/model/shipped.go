package model

import (
	"cmp"
	"embed"
	"os"
	"path"
	"path/filepath"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/file"
)

//go:embed models/*.yaml
var files embed.FS

// Names lists the models that are part of perigee, sorted.
func Names() []string { return file.Stems(files, "models/*.yaml") }

// Source returns the file of a shipped model. Small and capital letters, hyphens and
// underscores in its name are alike.
func Source(name string) (file string, text []byte, ok bool) {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	file = cmp.Or(aliases[name], name) + ".yaml"
	text, err := files.ReadFile("models/" + file)
	return file, text, err == nil
}

// Shipped returns a model that is part of perigee.
func Shipped(name string) (*Model, bool) {
	file, text, ok := Source(name)
	if !ok {
		return nil, false
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

// Load takes a model by its name, or reads a file, or the config.json in a folder. Names are as perigee has them or as
// on Hugging Face, in capital or small letters: llama3.1-70b, meta-llama/Llama-3.1-70B-Instruct.
func Load(name string) (*Model, error) {
	if m, ok := Shipped(name); ok {
		return m, nil
	}
	if folder, err := os.Stat(name); err == nil && folder.IsDir() {
		return LoadFile(filepath.Join(name, configName))
	}
	if conf.Readable(name) {
		return LoadFile(name)
	}
	if err := refuseWeights(name); err != nil {
		return nil, err
	}
	return Named(name)
}

// Named is a shipped model by its name, here or on Hugging Face. A name that no model has is an error of the kind
// Usage, with those that may be meant.
func Named(name string) (*Model, error) {
	if m, ok := Shipped(name); ok {
		return m, nil
	}
	if shipped, ok := Similar(name); ok {
		m, _ := Shipped(shipped)
		return m, nil
	}
	return nil, fault.New(fault.Usage, "there is no model %q%s", name, suggestion(name)).
		WithHint("perigee kvbench models lists those that are part of perigee; a file is the config.json of a model, or one of your own (docs/models.md)")
}

// suggestion names models that a name may mean: one with a letter wrong, or those that begin with it.
func suggestion(name string) string {
	name = strings.Join(words(path.Base(name)), "-")
	if text := conf.Suggestion(name, Names()); text != "" {
		return text
	}
	var begin []string
	for _, n := range Names() {
		if given := squeeze(name); given != "" && strings.HasPrefix(squeeze(n), given) {
			begin = append(begin, n)
		}
	}
	if begin == nil {
		return ""
	}
	return "; did you mean one of " + strings.Join(begin, ", ") + "?"
}

const configName = "config.json"

// LoadFile reads a model file. Of a config.json, hf_quant_config.json beside it may say the precision of the cache. A
// file that cannot be read or understood is an error of the kind Input, with its name and the line.
func LoadFile(path string) (*Model, error) {
	if err := refuseWeights(path); err != nil {
		return nil, err
	}
	v, err := conf.Load(path)
	if err != nil {
		return nil, err
	}
	m, err := Parse(v)
	if err != nil || filepath.Base(path) != configName || m.CacheDType != "" {
		return m, err
	}
	beside := filepath.Join(filepath.Dir(path), "hf_quant_config.json")
	if _, err := os.Stat(beside); err != nil {
		return m, nil
	}
	q, err := conf.Load(beside)
	if err != nil {
		return nil, err
	}
	m.CacheDType = quantizedCache(q.Get("quantization"))
	return m, nil
}
