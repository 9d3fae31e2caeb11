package model

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
)

// This file names files that lie beside a model's config.json, and are taken for it, as what they are.

const besideIt = "the config.json beside it says what the layers keep: give that file, or the folder"

// otherDocument is the error of a document that is known to be another one of a model's, or of a config.json that does
// not say of which model; nil: it may be a model file.
func otherDocument(v *conf.Value) error {
	has := func(keys ...string) bool {
		for _, key := range keys {
			if !v.Has(key) {
				return false
			}
		}
		return true
	}
	var what string
	switch {
	case has("dim", "n_layers", "n_heads") && !has("architectures"):
		what = "a params.json, in the form of Mistral's and Meta's own code"
	case isConfig(v), has("model_name"), has("model"), has("groups"):
		return nil
	case has("num_attention_heads"):
		return v.Errorf("the key model_type is missing, and so is architectures: nothing says which model it is of")
	case has("tokenizer_class"):
		what = "a tokenizer_config.json"
	case has("weight_map"):
		what = "an index of weights, model.safetensors.index.json"
	case has("transformers_version"):
		what = "a generation_config.json"
	default:
		return nil
	}
	return v.Errorf("this is %s, and no config.json", what).WithHint(besideIt)
}

// refuseWeights is the error of a file of weights, by its first bytes; nil: it is another one, or cannot be read.
func refuseWeights(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil // the reader of documents says so
	}
	defer f.Close()
	head := make([]byte, 9)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil
	}
	switch header := binary.LittleEndian.Uint64(head); {
	case bytes.HasPrefix(head, []byte("GGUF")):
		return fault.New(fault.Input, "%s: this is a GGUF file, and no config.json", path).
			WithHint("the config.json of the model that it was made from says what the layers keep")
	case head[8] == '{' && header > 0 && header < uint64(info.Size()):
		return fault.New(fault.Input, "%s: this is a safetensors file, and no config.json", path).WithHint(besideIt)
	}
	return nil
}
