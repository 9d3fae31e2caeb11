package model

import (
	"cmp"
	"embed"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
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
	m, err := Parse(v)
	if err != nil {
		panic(err)
	}
	m.byNameOnly(name)
	return m, true
}

// Named is a shipped model by its name, here or on Hugging Face. A name that no model has is an error of the kind
// Usage, with those that may be meant.
func Named(name string) (*Model, error) {
	if m, ok := Shipped(name); ok {
		return m, nil
	}
	if shipped, ok := Similar(name); ok {
		m, _ := Shipped(shipped)
		m.byNameOnly(name)
		return m, nil
	}
	if classOnly(name) {
		return nil, fault.New(fault.Usage, "of %q only its class is known here, not the sizes of this checkpoint", name).
			WithHint("give its config.json, or put that into the local cache: hf download %s config.json", hubID(name))
	}
	hint := "perigee kvbench models lists those that are part of perigee; a file is the config.json of a model, or one of your own (docs/models.md)"
	if isID(name) {
		hint += "; one in the local cache is read there: hf download " + name + " config.json"
	}
	return nil, fault.New(fault.Usage, "there is no model %q%s", name, Suggestion(name)).WithHint("%s", hint)
}

// byNameOnly notes that nothing but a name is known of the model that is asked for.
func (m *Model) byNameOnly(name string) {
	m.ByName = name
	if quantized(name) {
		m.noAuto = "only the name is known, and the checkpoint's hf_quant_config.json may say another precision of the cache"
	}
}
