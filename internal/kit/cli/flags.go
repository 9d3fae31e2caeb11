package cli

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// Format is the flag of commands that print for people and for programs.
type Format struct {
	Format string `name:"format" enum:"${formats=text,json,csv}" default:"text" help:"${formats_help=text, json or csv}."`
}

// Given returns the value of a flag that may be missing, or a default.
func Given[T any](value *T, preset T) T {
	if value != nil {
		return *value
	}
	return preset
}

// model returns the parser of a struct of flags.
func model(flags any) (*kong.Kong, error) {
	return Parser(flags, kong.NoDefaultHelp())
}

// Take reads those flags that a struct declares, in kong's tags, and returns the other words in their order. It is for
// command lines whose other words can be understood only later. flags is a pointer to the struct; what the words do
// not give it has its default, also if err is not nil.
//
// A word after -- belongs to no flag. A flag takes the word after it as its value, as it would if kong knew the others.
func Take(flags any, words []string) (rest []string, err error) {
	k, err := model(flags)
	if err != nil {
		return words, err
	}
	takesValue := map[string]bool{} // by flag
	for _, f := range k.Model.Flags {
		if f.Short != 0 {
			takesValue["-"+string(f.Short)] = !f.IsBool()
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			takesValue["--"+name] = !f.IsBool()
		}
	}
	var taken []string
	for i := 0; i < len(words); i++ {
		if words[i] == "--" {
			rest = append(rest, words[i:]...)
			break
		}
		name, _, joined := strings.Cut(words[i], "=")
		if len(name) > 2 && name[0] == '-' && name[1] != '-' { // -n4
			name, joined = name[:2], true
		}
		value, known := takesValue[name]
		if !known {
			rest = append(rest, words[i])
			continue
		}
		taken = append(taken, words[i])
		if value && !joined && i+1 < len(words) {
			i++
			taken = append(taken, words[i])
		}
	}
	_, err = k.Parse(taken)
	return rest, err
}

// Words writes a struct of flags as the words that [Take] reads it from. Flags that have their default are left out.
func Words(flags any) ([]string, error) {
	k, err := model(flags)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, f := range k.Model.Flags {
		preset := reflect.New(f.Target.Type()).Elem()
		if f.HasDefault {
			token := kong.Token{Value: f.Default, Type: kong.FlagValueToken}
			if err := f.Parse(kong.ScanFromTokens(token), preset); err != nil {
				return nil, err
			}
		}
		if reflect.DeepEqual(preset.Interface(), f.Target.Interface()) {
			continue
		}
		for _, text := range texts(f) {
			words = append(words, "--"+f.Name+"="+text)
		}
	}
	return words, nil
}

// texts are the values of a flag, several for a list.
func texts(f *kong.Flag) []string {
	v := reflect.Indirect(f.Target)
	if !f.IsSlice() {
		return []string{fmt.Sprint(v.Interface())}
	}
	list := make([]string, v.Len())
	for i := range list {
		list[i] = fmt.Sprint(v.Index(i).Interface())
		if f.Tag.Sep != -1 {
			list[i] = kong.JoinEscaped(list[i:i+1], f.Tag.Sep)
		}
	}
	return list
}

// JoinSort joins --sort and a value that begins with a minus to one word: the
// parser of the command line would take the value for a flag.
func JoinSort(args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--sort" && i+1 < len(args) && strings.HasPrefix(args[i+1], "-") &&
			!strings.HasPrefix(args[i+1], "--") {
			joined = append(joined, "--sort="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}
