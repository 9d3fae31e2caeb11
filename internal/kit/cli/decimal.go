package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// decimal is an option for kong under which whole numbers that begin with 0 are decimal: 010 is ten, as a script that
// counts with leading zeros means it, and as options of scenarios have it. kong by itself reads eight.
func decimal() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		for _, kind := range []reflect.Kind{reflect.Int, reflect.Int64, reflect.Uint64} {
			if err := kong.KindMapper(kind, kong.MapperFunc(decodeWhole)).Apply(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// decodeWhole reads a whole number of a flag. kong would take 010 for 8, as C does; numbers of ranks and bytes are
// decimal unless they have a prefix.
func decodeWhole(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("int")
	if err != nil {
		return err
	}
	text, base := fmt.Sprint(token.Value), 10
	if strings.ContainsAny(text, "xXoObB") { // 0x10, 0o10, 0b10
		base = 0
	}
	bits := target.Type().Bits()
	if target.CanUint() {
		n, err := strconv.ParseUint(text, base, bits)
		if err != nil {
			return fmt.Errorf("expected a valid %d bit uint but got %q", bits, text)
		}
		target.SetUint(n)
		return nil
	}
	n, err := strconv.ParseInt(text, base, bits)
	if err != nil {
		return fmt.Errorf("expected a valid %d bit int but got %q", bits, text)
	}
	target.SetInt(n)
	return nil
}
