// Package config is the module config, which reads configurations: config.load(path, schema).
//
// Rank 0 of the host reads the file (YAML, TOML, JSON, CSV or JSON lines, see perigee/internal/kit/conf) and all ranks
// get the same plain data, with the defaults of the schema filled in; the result of a run that is repeated stands for
// the file. What the schema calls a path in a configuration that the user has named may be used for transfers (see
// perigee/lua/files).
package config

import (
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// Module is the module config.
type Module struct{}

type instance struct{ modules.Host }

// New makes the module of a VM.
func (Module) New(h modules.Host) modules.Instance { return &instance{h} }

// Exports lists the one function.
func (r *instance) Exports() modules.Exports {
	return modules.Exports{Functions: map[string]vm.Function{"load": r.Collective(r.load)}}
}

// load(path, schema). Rank 0 reads the file, all ranks get its
// contents with the schema's defaults filled in.
func (r *instance) load(L *glua.LState) (int, error) {
	path := L.CheckString(1)
	var schema conf.Schema
	if L.Get(2) != glua.LNil {
		plain, err := vm.ToGo(L.CheckTable(2))
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
	plain, err := r.AtRankZero("config.load of "+path, func() (any, error) {
		text, err := modules.ReadText(r, path)
		if err != nil {
			return nil, err
		}
		if !conf.Readable(path) && !conf.HasRows(path) {
			return nil, fault.New(fault.Input, "%s: wanted a file that ends in .yaml, .yml, .json, .toml, .csv, .jsonl or .ndjson", path)
		}
		parse, check := conf.Parse, schema.Check
		if conf.HasRows(path) {
			parse, check = conf.ParseRows, schema.CheckRows
		}
		v, err := parse(path, text)
		if err == nil && schema != nil {
			v, err = check(v)
		}
		if err != nil {
			return nil, err
		}
		return v.Plain(), nil
	})
	if err != nil {
		return 0, err
	}
	if err := r.grantStorage(path, schema, plain); err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, plain))
}

// grantStorage lets the transfers of every rank use the files that a configuration of the user's names.
func (r *instance) grantStorage(config string, schema conf.Schema, plain any) error {
	if !r.Files().NamesStorage(config) {
		return nil
	}
	v, err := conf.FromPlain(config, plain)
	if err != nil {
		return err
	}
	r.Files().GrantStorage(schema.Paths(v))
	return nil
}
