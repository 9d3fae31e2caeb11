package runs

import (
	"errors"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
)

// versions are the schema versions that can be read.
var versions = map[string]func(*Record, *conf.Value) error{
	"0.1": readV01, "0.2": readV02, "0.2.1": readV02,
}

// ReadReport reads the text of a benchmark report. name gives the format by
// its ending and stands for the text in errors, which are of the kind Input.
func ReadReport(name string, text []byte) (*Record, error) {
	doc, err := conf.Parse(name, text)
	if err != nil {
		return nil, withLine(name, err)
	}
	if doc.Kind != conf.Map {
		return nil, doc.Errorf("wanted a benchmark report, which is a map with version, scenario and metrics or results; got %s", doc.Kind)
	}
	version, err := versionOf(doc)
	if err != nil {
		return nil, err
	}
	r := New(name)
	r.Schema = version
	if err := versions[version](r, doc); err != nil {
		return nil, err
	}
	return r, nil
}

// withLine adds line 1 to an error about a whole document.
func withLine(name string, err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if rest, whole := strings.CutPrefix(err.Error(), name+": "); ok && whole {
		e.Msg = name + ":1: " + rest
	}
	return err
}

// versionOf returns the schema version of a document. The first reports could
// do without one.
func versionOf(doc *conf.Value) (string, error) {
	v := doc.Get("version")
	if v == nil || v.Kind == conf.Null {
		if doc.Has("metrics") && doc.Has("scenario") {
			return "0.1", nil
		}
		return "", doc.Errorf("the key version is missing: this is no benchmark report of llm-d; perigee disagg parse reads results of clients")
	}
	text := v.Text()
	if v.Kind == conf.Float {
		text = strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	if versions[text] == nil {
		return "", v.Errorf("wanted version 0.1, 0.2 or 0.2.1, got %s", shown(v))
	}
	return text, nil
}
