package lua

import (
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/conf"
	"perigee/internal/fault"
)

// configModule reads configurations.
type configModule struct{ base }

func (r *configModule) exports() map[string]function {
	return map[string]function{"load": r.collective(r.load)}
}

// load(path, schema). Rank 0 reads the file, all ranks get its
// contents with the schema's defaults filled in.
func (r *configModule) load(L *glua.LState) (int, error) {
	path := L.CheckString(1)
	var schema conf.Schema
	if L.Get(2) != glua.LNil {
		plain, err := toGo(L.CheckTable(2))
		if err != nil {
			return 0, err
		}
		v, err := conf.FromPlain("schema", plain)
		if err != nil {
			return 0, fault.New(fault.Script, "%w", err)
		}
		if schema, err = conf.SchemaFrom(v); err != nil {
			return 0, fault.New(fault.Script, "%w", err)
		}
	}
	data, err := r.atRankZero("config.load of "+path, func() ([]byte, error) {
		text, err := r.readText(path)
		if err != nil {
			return nil, err
		}
		v, err := conf.Parse(path, text)
		if err != nil {
			return nil, err
		}
		if schema != nil {
			if v, err = schema.Check(v); err != nil {
				return nil, err
			}
		}
		return encodeValue(v.Plain()), nil
	})
	if err != nil {
		return 0, err
	}
	if err := r.grantStorage(path, schema, data); err != nil {
		return 0, err
	}
	return r.push(L, data)
}

// grantStorage lets the transfers of every rank use the files that a configuration of the user's names.
func (r *configModule) grantStorage(config string, schema conf.Schema, data []byte) error {
	if !r.files.configs[config] {
		return nil
	}
	plain, err := decodeValue(data)
	if err != nil {
		return err
	}
	v, err := conf.FromPlain(config, plain)
	if err != nil {
		return err
	}
	for _, path := range schema.Paths(v) {
		r.files.storage[path] = true
	}
	return nil
}

// readText reads a file, or finds it in the result that is repeated, and notes it in
// the new one.
func (r *Runtime) readText(path string) (text []byte, err error) {
	found := false
	if r.env.Repeat != nil {
		if text, found, err = r.env.Repeat.Text(path); err != nil {
			return nil, fault.New(fault.Input, "%w", err)
		}
	}
	if !found {
		if err := r.files.notOver(path); err != nil {
			return nil, err
		}
		if text, err = conf.Read(path); err != nil {
			return nil, err
		}
	}
	if r.env.Doc != nil {
		r.env.Doc.AddText(path, text)
	}
	return text, nil
}
