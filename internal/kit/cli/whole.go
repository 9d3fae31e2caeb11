package cli

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/value"
)

// numbers is an option for kong under which a whole number of a flag, or with the tag type:"tokens" one of tokens, with
// type:"number" any one, is what value has under that name, within the bounds of the tags min and max. Whole numbers
// that begin with 0 are decimal: 010 is ten, as a script that counts with leading zeros means it, and as options of
// scenarios have it; kong by itself reads eight.
func numbers() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		for _, kind := range []reflect.Kind{reflect.Int, reflect.Int64, reflect.Uint64} {
			if err := kong.KindMapper(kind, kong.MapperFunc(decodeNumber)).Apply(k); err != nil {
				return err
			}
		}
		for _, name := range []string{"tokens", "number"} {
			if err := kong.NamedMapper(name, kong.MapperFunc(decodeNumber)).Apply(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// decodeNumber reads a number of a flag.
func decodeNumber(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("int")
	if err != nil {
		return err
	}
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	text := fmt.Sprint(token.Value)
	if target.CanUint() {
		n, err := strconv.ParseUint(text, base(text), target.Type().Bits())
		if err != nil {
			return fmt.Errorf("wanted a whole number, got %q", text)
		}
		target.SetUint(n)
		return nil
	}
	tag := ctx.Value.Tag
	kind := cmp.Or(tag.Type, "int")
	f := value.Field{Type: kind, Min: limit(tag.Get("min")), Max: limit(tag.Get("max"))}
	if n, err := strconv.ParseInt(text, base(text), target.Type().Bits()); err == nil {
		text = strconv.FormatInt(n, 10)
	}
	if target.CanFloat() && kind == "tokens" { // a mean
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			target.SetFloat(x)
			return nil
		}
	}
	n, err := f.Parse(text)
	if err != nil {
		return err
	}
	target.Set(reflect.ValueOf(n).Convert(target.Type()))
	return nil
}

// base is 10, but for 0x10, 0o10 and 0b10.
func base(text string) int {
	if strings.ContainsAny(text, "xXoObB") {
		return 0
	}
	return 10
}

// limit is the number in a tag, nil for none.
func limit(text string) *float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	return &x
}
