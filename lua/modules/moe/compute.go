package moe

import (
	"reflect"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/fault"
	"perigee/lua/option"
	"perigee/lua/vm"
)

// fit: fit{{bytes, seconds}, ...}.
func fit(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	if err := vm.List("moe.fit: the list of points", "the keys 1, 2, 3 ...", t); err != nil {
		return 0, err
	}
	var points []moe.Point
	for i, n := 1, t.Len(); i <= n; i++ {
		row, _ := t.RawGetInt(i).(*glua.LTable)
		pair, err := numbersFrom(row)
		if err != nil || len(pair) != 2 {
			return 0, fault.New(fault.Script, "moe.fit: point %d is %s, want {bytes, seconds}", i,
				vm.Describe(t.RawGetInt(i)))
		}
		points = append(points, moe.Point{Bytes: pair[0], Seconds: pair[1]})
	}
	l := moe.FitLine(points)
	return vm.Return(L, vm.ToLua(L, map[string]any{
		"alpha": l.Alpha, "alpha_low": l.AlphaLow, "alpha_high": l.AlphaHigh,
		"rate": l.Rate, "rate_low": l.RateLow, "rate_high": l.RateHigh,
		"r2": l.R2, "share": l.Share, "refused": l.Refused, "starred": l.Starred,
	}))
}

// bufferSize: buffer_size(tokens, hidden, ranks, experts).
func bufferSize(L *glua.LState) (int, error) {
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = vm.IntegerArg(L, i+1, 1); err != nil {
			return 0, err
		}
	}
	// More than all the terms of the sum, in numbers that do not overflow.
	most := 8 * float64(n[0]) * float64(n[3]) * (moe.HeaderBytes + 4*float64(n[1]))
	if most >= vm.ExactBelow {
		return 0, fault.New(fault.Script, "moe.buffer_size: %d tokens of %d channels for %d experts take 2^53 bytes or more", n[0], n[1], n[3])
	}
	return vm.Return(L, glua.LNumber(moe.BufferHint(n[0], n[1], n[3])))
}

// growth: growth({ranks, ...}, {seconds, ...}).
func growth(L *glua.LState) (int, error) {
	ranks, err := numbersFrom(L.CheckTable(1))
	if err != nil {
		return 0, fault.New(fault.Script, "moe.growth: %w", err)
	}
	seconds, err := numbersFrom(L.CheckTable(2))
	if err != nil {
		return 0, fault.New(fault.Script, "moe.growth: %w", err)
	}
	if len(ranks) != len(seconds) {
		return 0, fault.New(fault.Script, "moe.growth: %d numbers of ranks and %d times", len(ranks), len(seconds))
	}
	g := moe.FitGrowth(ranks, seconds)
	return vm.Return(L, vm.ToLua(L, map[string]any{"exponent": g.Exponent, "low": g.Low, "high": g.High, "r2": g.R2,
		"refused": g.Refused, "shape": g.Shape()}))
}

// options: options(), a list for scenarios whose options are those of a routing and a placement.
func options(L *glua.LState) (int, error) {
	list := L.NewTable()
	for f := range reflect.TypeFor[moe.Options]().Fields() {
		o := L.NewTable()
		set := func(name string, v glua.LValue) { o.RawSetString(name, v) }
		set("name", glua.LString(f.Tag.Get("name")))
		set("help", glua.LString(strings.TrimSuffix(f.Tag.Get("help"), ".")))
		text := f.Tag.Get("default")
		switch {
		case f.Type == reflect.TypeFor[*float64]():
			set("type", glua.LString("number"))
		case f.Type != reflect.TypeFor[string]():
			set("type", glua.LString("int"))
			if n, err := strconv.Atoi(text); err == nil {
				set("default", glua.LNumber(n))
			}
		case f.Tag.Get("enum") != "":
			set("type", glua.LString("enum"))
			set("default", glua.LString(text))
			set("choices", vm.Texts(L, strings.Split(f.Tag.Get("enum"), ",")))
		default:
			set("type", glua.LString("path"))
		}
		if n, err := strconv.Atoi(f.Tag.Get("min")); err == nil {
			set("min", glua.LNumber(n))
		}
		list.Append(o)
	}
	return vm.Return(L, list)
}

// checkOptions: check_options(opt) refuses values of options() that the routing opt.routing does not look at.
func checkOptions(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	var o moe.Options
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		field := v.Field(i)
		given := L.GetField(t, option.Key(v.Type().Field(i).Tag.Get("name")))
		if given != glua.LNil && field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		switch given := given.(type) {
		case glua.LNumber:
			if field.Kind() != reflect.String {
				field.Set(reflect.ValueOf(float64(given)).Convert(field.Type()))
			}
		case glua.LString:
			if field.Kind() == reflect.String {
				field.SetString(string(given))
			}
		}
	}
	return 0, o.Check(L.GetField(t, "routing").String())
}

// check: check(spec, ranks) refuses what the ranks would refuse, before there are any.
func (r base) check(L *glua.LState) (int, error) {
	ranks, err := vm.IntegerArg(L, 2, 1)
	if err != nil {
		return 0, err
	}
	s, err := r.specFrom("moe.check", L.CheckTable(1), ranks)
	if err != nil {
		return 0, err
	}
	return 0, s.check()
}
