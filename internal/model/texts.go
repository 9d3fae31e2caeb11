package model

import (
	"os"
	"path/filepath"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
)

// The files of a checkpoint that are read.
const (
	configName = "config.json"
	quantName  = "hf_quant_config.json" // may say the precision of the cache
)

// Texts are the files of a model as one process has read them. They are plain data, from which other processes make
// the same model. Without files the model is known by its name only.
type Texts struct {
	Name  string `json:"name"` // as the user gave it
	Files []Text `json:"files,omitempty"`
}

// Text is a file of a model: its own, which comes first, or hf_quant_config.json beside a config.json.
type Text struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Load is the model of Read.
func Load(name string) (*Model, error) {
	t, err := Read(name)
	if err != nil {
		return nil, err
	}
	return t.Model()
}

// LoadFile is the model in a file. One that cannot be read or understood is an error of the kind Input, with its name
// and the line.
func LoadFile(path string) (*Model, error) {
	t, err := readFile(path, path)
	if err != nil {
		return nil, err
	}
	return t.Model()
}

// Read finds a model by its name, or reads a file, or the config.json in a folder or in Hugging Face's local cache.
// Names are as perigee has them or as on Hugging Face, in capital or small letters: llama3.1-70b,
// meta-llama/Llama-3.1-70B-Instruct. A file in the cache comes before a shipped model of a similar name. Whether there
// is a model of the name, Model says.
func Read(name string) (Texts, error) {
	if _, _, ok := Source(name); ok {
		return Texts{Name: name}, nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return readFile(name, filepath.Join(name, configName))
	}
	if err := refuseWeights(name); err != nil {
		return Texts{}, err
	}
	if conf.Readable(name) {
		return readFile(name, name)
	}
	folder, ok := cached(name)
	if !ok {
		return Texts{Name: name}, nil
	}
	t, err := readFile(name, filepath.Join(folder, configName))
	return t, again(name, err)
}

// readFile reads a model's file, and what is beside a config.json.
func readFile(name, path string) (t Texts, err error) {
	t.Name = name
	if err := refuseWeights(path); err != nil {
		return t, err
	}
	if !conf.Readable(path) {
		_, err := conf.Load(path) // says what it wants instead
		return t, err
	}
	if err := t.read(path); err != nil || filepath.Base(path) != configName {
		return t, err
	}
	beside := filepath.Join(filepath.Dir(path), quantName)
	if _, err := os.Lstat(beside); err != nil {
		return t, nil
	}
	return t, t.read(beside)
}

func (t *Texts) read(path string) error {
	text, err := conf.Read(path)
	if err == nil {
		t.Files = append(t.Files, Text{path, string(text)})
	}
	return err
}

// Model makes the model. Of a config.json, hf_quant_config.json may say the precision of the cache. Errors are of the
// kind Usage where there is no model of the name, otherwise Input, with file and line.
func (t Texts) Model() (*Model, error) {
	if len(t.Files) == 0 {
		return Named(t.Name)
	}
	v, err := t.parse(t.Files[0])
	if err != nil {
		return nil, err
	}
	m, err := Parse(v)
	if err != nil {
		return nil, err
	}
	if t.ofID() {
		m.Name, m.OfID = t.Name, true
	}
	switch {
	case m.CacheDType != "":
	case len(t.Files) > 1:
		q, err := t.parse(t.Files[1])
		if err != nil {
			return nil, err
		}
		m.CacheDType, m.cacheDTypeBy = quantizedCache(q.Get("quantization")), quantName
	case t.ofID() && quantized(t.Name) && !saysQuantization(v):
		m.noAuto = "the config.json in the local cache does not say how it is quantized, and hf_quant_config.json is not beside it"
	}
	return m, nil
}

// ofID reports whether the files are those of an id of Hugging Face.
func (t Texts) ofID() bool { return isID(t.Name) && t.Files[0].Path != t.Name }

func (t Texts) parse(f Text) (*conf.Value, error) {
	v, err := conf.Parse(f.Path, []byte(f.Text))
	if err != nil && t.ofID() {
		return nil, again(t.Name, err)
	}
	return v, err
}

// again says how to mend a file in the local cache.
func again(id string, err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.KindOf(err), "%w", err).WithHint(
		"that is %s in the local cache of Hugging Face; download it again: hf download %s %s %s --force-download", id, id,
		configName, quantName)
}

// saysQuantization reports whether a config.json says how the weights are quantized.
func saysQuantization(v *conf.Value) bool {
	for ; v != nil; v = languagePart(v) {
		if v.Has("quantization_config") || v.Has("compression_config") || v.Has("quantization") {
			return true
		}
	}
	return false
}

// Stored returns the files under the paths that a document which holds them has for them: as the user named them, or in
// the folder, or below the id, that the user named, wherever the cache has them.
func (t Texts) Stored() []Text {
	if len(t.Files) == 0 || t.Files[0].Path == t.Name {
		return t.Files
	}
	var files []Text
	for _, f := range t.Files {
		files = append(files, Text{filepath.Join(t.Name, filepath.Base(f.Path)), f.Text})
	}
	return files
}

// Restore finds again what Stored has kept of a name: get returns the text under a path, if there is one. ok is false
// where the text of the file that the name stands for is missing. A name that stands for none is known by itself.
func Restore(name string, get func(path string) (text []byte, ok bool, err error)) (t Texts, ok bool, err error) {
	t.Name = name
	for _, path := range []string{name, filepath.Join(name, configName)} {
		ok, err := t.restore(path, get)
		if ok && err == nil && filepath.Base(path) == configName {
			_, err = t.restore(filepath.Join(filepath.Dir(path), quantName), get)
		}
		if ok || err != nil {
			return t, err == nil, err
		}
	}
	return t, !conf.Readable(name), nil
}

func (t *Texts) restore(path string, get func(path string) ([]byte, bool, error)) (bool, error) {
	text, ok, err := get(path)
	if ok && err == nil {
		t.Files = append(t.Files, Text{path, string(text)})
	}
	return ok, err
}
