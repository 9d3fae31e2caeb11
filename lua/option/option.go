// Package option reads the options that a scenario declares, and makes the scenario's part of the command line of
// them.
//
// A script lists its options in its table, made by the functions of the module options (perigee/lua/modules/options):
//
//	options.int { "iters", 1000, "round trips", min = 1 }
//
// From reads that list. The same list then serves the help, the parser (Grammar, Values), results and their repetition
// (Restore, Alike), and the question which files the user has named (Keys, Inputs, Outputs). A value is plain data:
// int64, float64, string or bool, in the table that the function run gets under the option's Key.
package option

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/lua/vm"
)

// Option is something that a scenario takes from the command line.
type Option struct {
	Name     string
	Type     string // int, number, size, tokens, duration, string, bool, enum, path, output or storage
	Default  any    // nil: absent unless given
	Help     string
	Short    string // a letter that stands for the flag; empty for none
	Arg      bool   // a positional argument instead of a flag
	Min, Max *float64
	Choices  []string
	// InsteadOf names the option that is without its default where this one is given, and not given with it.
	InsteadOf string
	Aliases   []string // other names of the flag, which help does not show
	Hidden    bool     // not in help: the name that a tool which perigee stands beside has for something
	Original  bool     // such a name that is in help, in its last group
}

// Options are those of a scenario, in the order of its list.
type Options []Option

// Key is the name of an option in the table that run gets.
func Key(name string) string { return strings.ReplaceAll(name, "-", "_") }

func (o Option) key() string { return Key(o.Name) }

// Types are the functions of the module options, each of which makes an
// option of that type: options.int{"iters", 1000, "round trips", min = 1}.
var Types = []string{"int", "number", "size", "tokens", "duration", "string", "bool", "enum", "path", "output",
	"storage"}

var (
	optionName   = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	optionLetter = regexp.MustCompile(`^[a-gi-mo-zA-Z]$`) // -h is help, -n the number of ranks
)

// maxOptions bounds the options of a scenario: help and the command line show them before anything runs.
const maxOptions = 1000

// From reads the list that a scenario has as its options; nil stands for none.
func From(list *glua.LTable) (Options, error) {
	if list == nil {
		return nil, nil
	}
	if list.Len() > maxOptions {
		return nil, fmt.Errorf("wanted at most %d, got %d", maxOptions, list.Len())
	}
	var all Options
	err := vm.Each(list, "element %d", "options.int{...} or the like", func(i int, t *glua.LTable) error {
		o, err := optionFrom(t)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if slices.ContainsFunc(all, func(p Option) bool { return p.key() == o.key() }) {
			return fmt.Errorf("%s is there twice", o.Name)
		}
		if o.Short != "" && slices.ContainsFunc(all, func(p Option) bool { return p.Short == o.Short }) {
			return fmt.Errorf("-%s is there twice", o.Short)
		}
		all = append(all, o)
		return nil
	})
	for _, o := range all {
		if err == nil && o.InsteadOf != "" && all.named(o.InsteadOf) < 0 {
			err = fmt.Errorf("%s: instead_of names %q, which is no option of the list", o.Name, o.InsteadOf)
		}
	}
	return all, err
}

// named is the place of the option with a name; -1 for none.
func (all Options) named(name string) int {
	return slices.IndexFunc(all, func(o Option) bool { return o.Name == name })
}

func optionFrom(t *glua.LTable) (Option, error) {
	f := vm.NewFields("option", t)
	def := f.Get("default")
	name, help := f.Text("name", ""), f.Text("help", "")
	first := f.Positions(3) // the name, the default and the help
	if first[0] != glua.LNil {
		name = first[0].String()
	}
	if first[1] != glua.LNil {
		def = first[1]
	}
	if first[2] != glua.LNil {
		help = first[2].String()
	}
	o := Option{Type: f.Text("type", ""), Name: name, Help: help, Arg: f.Bool("arg", false),
		Short: f.Text("short", ""), InsteadOf: f.Text("instead_of", ""), Hidden: f.Bool("hidden", false),
		Original: f.Bool("original", false)}
	for name, to := range map[string]**float64{"min": &o.Min, "max": &o.Max} {
		if f.Get(name) != glua.LNil {
			n := f.Number(name, 0)
			*to = &n
		}
	}
	for name, to := range map[string]*[]string{"choices": &o.Choices, "aliases": &o.Aliases} {
		c := f.Table(name)
		if c == nil {
			continue
		}
		if err := vm.List(name, "a list", c); err != nil {
			return Option{}, err
		}
		for i := range c.Len() {
			*to = append(*to, c.RawGetInt(i+1).String())
		}
	}
	if err := f.Err(); err != nil {
		return o, err
	}
	if text, ok := def.(glua.LString); ok {
		o.Default = string(text)
	}
	if err := o.valid(); err != nil {
		return o, err
	}
	switch def.Type() {
	case glua.LTNil:
		return o, nil
	case glua.LTBool, glua.LTNumber, glua.LTString:
	default:
		return o, fault.New(fault.Usage, "the default of %s is %s, want a number, a text, or true or false", o.label(),
			vm.Describe(def))
	}
	var err error
	if o.Default, err = vm.ToGo(def); err != nil {
		return o, err
	}
	o.Default, err = o.check(o.Default)
	return o, err
}

// valid refuses what makes no sense in the declaration of an option.
func (o Option) valid() error {
	bounded := slices.Contains([]string{"int", "number", "size", "tokens"}, o.Type)
	switch {
	case !optionName.MatchString(o.Name):
		return fmt.Errorf("the name %q must be small letters, digits and hyphens", o.Name)
	case o.Name == "help" || o.Name == "version":
		return fmt.Errorf("no option can have the name %s: --%[1]s is perigee's own", o.Name)
	case slices.ContainsFunc(o.Aliases, func(a string) bool { return !optionName.MatchString(a) }):
		return fmt.Errorf("%s: its other names must be small letters, digits and hyphens", o.Name)
	case slices.ContainsFunc(o.Choices, func(c string) bool { return strings.HasPrefix(c, "-") }):
		return fmt.Errorf("%s: choices cannot begin with a hyphen: on a command line they would be flags", o.Name)
	case !slices.Contains(Types, o.Type):
		return fmt.Errorf("%s is not made by the module options", o.Name)
	case o.Type == "enum" && len(o.Choices) == 0, len(o.Choices) > 0 && o.Type != "enum" && o.Type != "bool":
		return fmt.Errorf("%s: choices go with options.enum, and else only with options.bool", o.Name)
	case (o.Min != nil || o.Max != nil) && !bounded:
		return fmt.Errorf("%s: min and max go with int, number, size and tokens only", o.Name)
	case o.Short != "" && (!optionLetter.MatchString(o.Short) || o.Arg):
		return fmt.Errorf("%s: short is %q, want one letter other than h and n, of an option that is no argument", o.Name, o.Short)
	case o.Type == "bool" && o.Arg:
		return fmt.Errorf("%s: a bool cannot be an argument", o.Name)
	}
	return nil
}

// field is what the option's value may be.
func (o Option) field() value.Field {
	kind := o.Type
	if o.isFile() {
		kind = "string"
	}
	return value.Field{Type: kind, Min: o.Min, Max: o.Max, Choices: o.Choices}
}

// isFile reports whether the option names a file or folder.
func (o Option) isFile() bool { return slices.Contains([]string{"path", "output", "storage"}, o.Type) }

// check turns a value into the option's type.
func (o Option) check(v any) (any, error) { return o.checked(o.field().Check(v)) }

// checked adds the option's name to an error, and refuses what a script could not count with, or open.
func (o Option) checked(v any, err error) (any, error) {
	switch v := v.(type) {
	case int64: // larger ones could not be read from a result either
		if v >= vm.ExactBelow || v <= -vm.ExactBelow {
			err = fmt.Errorf("wanted a number below 2^53, got %d: Lua cannot hold all larger ones exactly", v)
		}
	case string:
		if v == "" && o.isFile() {
			err = errors.New("wanted a name, got nothing")
		}
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "%s: %w", o.label(), err)
	}
	return v, nil
}

func (o Option) label() string {
	if o.Arg {
		return strings.ToUpper(o.Name)
	}
	return "--" + o.Name
}

// given is the text of an option on the command line, nil if it is not there.
type given struct{ text *string }

var _ encoding.TextUnmarshaler = (*given)(nil)

// UnmarshalText keeps the text; Values checks it once all are known.
func (g *given) UnmarshalText(b []byte) error {
	s := string(b)
	g.text = &s
	return nil
}

// switchOrChoice is a bool on the command line that also takes a word: --name, --no-name, --name=WORD. It is nil if
// the option is not there.
type switchOrChoice struct{ value any }

var _ kong.BoolMapperValue = (*switchOrChoice)(nil)

// IsBool lets the flag stand alone.
func (*switchOrChoice) IsBool() bool { return true }

// Decode keeps true, false or the word, which Values checks.
func (s *switchOrChoice) Decode(ctx *kong.DecodeContext) error {
	s.value = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	s.value = ctx.Scan.Pop().Value
	if text, ok := s.value.(string); ok {
		if b, err := strconv.ParseBool(text); err == nil {
			s.value = b
		}
	}
	return nil
}

// Grammar returns a pointer to a struct from which kong makes the scenario's
// part of the command line. Values reads it after parsing.
func (all Options) Grammar() any {
	fields := make([]reflect.StructField, len(all))
	for i, o := range all {
		var value any = given{}
		switch {
		case o.Type == "bool" && len(o.Choices) > 0:
			value = switchOrChoice{}
		case o.Type == "bool":
			value = (*bool)(nil)
		}
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("Option%d", i), Type: reflect.TypeOf(value), Tag: o.tag(),
		}
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// tag describes the option to kong.
func (o Option) tag() reflect.StructTag {
	var parts []string
	add := func(key, value string) {
		// a lone $ means something to kong
		value = strings.ReplaceAll(strings.Join(strings.Fields(value), " "), "$", "$$")
		// kong takes a backslash before the closing quote for an escaped quote.
		parts = append(parts, key+":"+strings.ReplaceAll(strconv.Quote(value), `\\`, `\x5c`))
	}
	add("name", o.Name)
	help := o.Help
	if len(o.Choices) > 0 {
		help += " (" + strings.Join(o.Choices, ", ") + ")"
	}
	if o.Default != nil && o.Default != false {
		help += fmt.Sprintf(" [%v]", o.shownDefault())
	}
	add("help", help)
	if o.Short != "" {
		add("short", o.Short)
	}
	if o.Aliases != nil {
		add("aliases", strings.Join(o.Aliases, ","))
	}
	if o.Hidden {
		add("hidden", "")
	}
	if o.Original {
		add("group", cli.Originals)
	}
	switch {
	case o.Arg:
		add("arg", "")
		if o.Default != nil {
			add("optional", "")
		}
	case o.Type == "bool":
		add("negatable", "")
	default:
		add("placeholder", map[string]string{"path": "FILE", "output": "FILE", "storage": "PATH", "int": "N",
			"number": "X", "size": "SIZE", "tokens": "N", "duration": "TIME", "string": "TEXT", "enum": "NAME"}[o.Type])
	}
	return reflect.StructTag(strings.Join(parts, " "))
}

// shownDefault is the default as a person would write it.
func (o Option) shownDefault() any {
	if o.Type == "duration" {
		return time.Duration(o.Default.(float64) * 1e9)
	}
	n, ok := o.Default.(int64)
	if !ok || o.Type != "size" || n == 0 {
		return o.Default
	}
	for _, unit := range []struct {
		letter string
		shift  int
	}{{"G", 30}, {"M", 20}, {"K", 10}} {
		if n%(1<<unit.shift) == 0 {
			return fmt.Sprint(n>>unit.shift, unit.letter)
		}
	}
	return n
}

// Values reads what kong has parsed into a Grammar: one entry per option that
// was given or has a default, and of these named only those that were given. An option that another is given instead of
// has no entry.
func (all Options) Values(grammar any) (values, named map[string]any, err error) {
	values, named = map[string]any{}, map[string]any{}
	fields := reflect.ValueOf(grammar).Elem()
	for i, o := range all {
		var v any
		switch f := fields.Field(i).Interface().(type) {
		case given:
			if f.text != nil {
				v, err = o.checked(o.field().Parse(*f.text))
			}
		case switchOrChoice:
			if f.value != nil {
				v, err = o.check(f.value)
			}
		case *bool:
			if f != nil {
				v = *f
			}
		}
		switch {
		case err != nil:
			return nil, nil, err
		case v != nil:
			values[o.key()], named[o.key()] = v, v
		case o.Default != nil:
			values[o.key()] = o.Default
		}
	}
	for _, o := range all {
		if named[o.key()] == nil || o.InsteadOf == "" {
			continue
		}
		if other := all[all.named(o.InsteadOf)]; named[other.key()] != nil {
			return nil, nil, fault.New(fault.Usage, "%s and %s: one is instead of the other", o.label(), other.label()).
				WithHint("leave one of them away")
		}
		delete(values, Key(o.InsteadOf))
	}
	return values, named, nil
}

// Restore checks options that a result holds, as Values those of a command line. Without outputs, files
// that were written are left out: a repetition does not write over them.
func (all Options) Restore(stored map[string]any, outputs bool) (map[string]any, error) {
	values := map[string]any{}
	for _, o := range all {
		v, ok := o.In(stored)
		if !ok || o.Type == "output" && !outputs {
			continue
		}
		// JSON does not distinguish 2 from 2.0.
		if f, isFloat := v.(float64); isFloat && f == math.Trunc(f) && math.Abs(f) < vm.ExactBelow {
			v = int64(f)
		}
		checked, err := o.check(v)
		if err != nil {
			return nil, fault.New(fault.Input, "the options in the result: %w", err)
		}
		values[o.key()] = checked
	}
	for key := range stored {
		if !slices.ContainsFunc(all, func(o Option) bool { return slices.Contains(o.keys(), key) }) {
			return nil, fault.New(fault.Input, "the options in the result: the scenario has no option %q", key)
		}
	}
	return values, nil
}

// keys are the option's keys: that of its name and, in results of before, those of its other names.
func (o Option) keys() []string {
	keys := []string{o.key()}
	for _, a := range o.Aliases {
		keys = append(keys, Key(a))
	}
	return keys
}

// In is the option's value among those under its name or, in results of before, another name of it.
func (o Option) In(values map[string]any) (v any, ok bool) {
	for _, key := range o.keys() {
		if v, ok = values[key]; ok {
			break
		}
	}
	return v, ok
}

// Keys lists the options of a type, as keys of the table that run gets.
func (all Options) Keys(kind string) (keys []string) {
	for _, o := range all {
		if o.Type == kind {
			keys = append(keys, o.key())
		}
	}
	return keys
}

// Alike yields, with their flags, the values that must be the same at all ranks, as JSON: those of all options but
// files, which may have other names on other hosts. What has no value is "none".
func (all Options) Alike(options map[string]any) iter.Seq2[string, string] {
	return func(yield func(flag, value string) bool) {
		for _, o := range all {
			if o.isFile() {
				continue
			}
			text := "none"
			if v, given := options[o.key()]; given {
				data, err := json.Marshal(v)
				if err != nil { // an infinite number
					data = fmt.Append(nil, v)
				}
				text = string(data)
			}
			if !yield(o.label(), text) {
				return
			}
		}
	}
}

// Outputs yields the files that the options name for writing, with their flags.
func (all Options) Outputs(options map[string]any) iter.Seq2[string, string] {
	return func(yield func(flag, path string) bool) {
		for _, o := range all {
			if path, ok := options[o.key()].(string); ok && o.Type == "output" && !yield(o.label(), path) {
				return
			}
		}
	}
}

// Inputs lists the files that the options name for reading.
func (all Options) Inputs(options map[string]any) (list []string) {
	for _, key := range all.Keys("path") {
		if path, ok := options[key].(string); ok && path != "" {
			list = append(list, path)
		}
	}
	return list
}
