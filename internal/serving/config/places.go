package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/size"
	"perigee/internal/kit/value"
)

// place takes the value of a key. Its type says what the key may hold.
type place interface {
	// store puts what v holds there, or says what is wrong with it.
	store(v *conf.Value) (wrong []string)
}

type (
	text  struct{ to *string }
	oneOf struct {
		to    *string
		texts []string
	}
	script  struct{ to *string }   // of a shell
	logName struct{ to *string }   // a file in the result folder
	words   struct{ to *[]string } // with blanks between
	texts   struct{ to *[]string } // a list of texts; one text is a list of one
	whole   struct {
		to *int
		value.Field
	}
	number struct {
		to *float64
		value.Field
	}
	optionalNumber struct {
		to **float64
		value.Field
	}
	flag         struct{ to *bool }
	optionalFlag struct{ to **bool }
	levels       struct{ to *[]int }             // positive, with blanks between, one integer, or a list
	timeLimit    struct{ to *int }               // "HH:MM:SS", or minutes, as sbatch has it
	duration     struct{ to *int }               // seconds, or "HH:MM:SS"
	rate         struct{ to *float64 }           // bytes per second, as links have it
	assignments  struct{ to *[]string }          // K=V with blanks between
	variables    struct{ to *map[string]string } // a map with any keys
	mapping      struct{ to **conf.Value }       // a map with any keys, as it is
	section      struct{}                        // a map whose keys are in the table too
	anything     struct{ to **conf.Value }       // as it is
)

// most is the largest integer that a key may hold: products of four of them are
// never computed, of two they fit.
const most = 1_000_000_000

func count(to *int) whole    { return whole{to, value.Whole(0, most)} }
func positive(to *int) whole { return whole{to, value.Whole(1, most)} }

func wanted(what string, v *conf.Value) []string {
	return []string{"wanted " + what + ", got " + shown(v)}
}

func (p text) store(v *conf.Value) []string {
	if v.Kind != conf.String {
		return wanted("text (in quotes it would be text)", v)
	}
	*p.to = cmp.Or(v.Text(), *p.to)
	return nil
}

func (p script) store(v *conf.Value) []string { return text(p).store(v) }

func (p logName) store(v *conf.Value) []string {
	if strings.ContainsAny(v.Text(), "/\x00") {
		return wanted("the name of a file in the result folder", v)
	}
	return text(p).store(v)
}

func (p words) store(v *conf.Value) []string {
	*p.to = strings.Fields(v.Text())
	return text{new(string)}.store(v)
}

func (p oneOf) store(v *conf.Value) []string {
	switch {
	case v.Kind != conf.String:
		return text{}.store(v)
	case slices.Contains(p.texts, v.Text()):
		*p.to = v.Text()
		return nil
	}
	return wanted("one of "+strings.Join(p.texts, ", "), v)
}

func (p texts) store(v *conf.Value) []string {
	elements := v.List()
	if v.Kind == conf.String {
		elements = []*conf.Value{v}
	} else if v.Kind != conf.List {
		return wanted("a list of texts", v)
	}
	var list []string
	for _, element := range elements {
		if element.Text() == "" {
			return wanted("a list of texts that are not empty", v)
		}
		list = append(list, element.Text())
	}
	*p.to = list
	return nil
}

func (p whole) store(v *conf.Value) []string {
	n, ok := p.Take(v.Plain())
	if !ok {
		return wanted(p.Wanted(), v)
	}
	*p.to = int(n.(int64))
	return nil
}

func (p number) store(v *conf.Value) []string {
	x, ok := p.Take(v.Plain())
	if !ok {
		return wanted(p.Wanted(), v)
	}
	*p.to = x.(float64)
	return nil
}

func (p optionalNumber) store(v *conf.Value) []string {
	var x float64
	wrong := number{&x, p.Field}.store(v)
	if wrong == nil {
		*p.to = &x
	}
	return wrong
}

func (p flag) store(v *conf.Value) []string {
	if v.Kind != conf.Bool {
		return wanted("true or false", v)
	}
	*p.to = v.Bool()
	return nil
}

func (p optionalFlag) store(v *conf.Value) []string {
	*p.to = new(bool)
	return flag{*p.to}.store(v)
}

func (p levels) store(v *conf.Value) (wrong []string) {
	*p.to, wrong = levelsOf(v)
	return wrong
}

func (p timeLimit) store(v *conf.Value) (wrong []string) {
	switch {
	case v.Kind == conf.Int:
		*p.to, wrong = minutes(v)
		return wrong
	case placeholder(v.Text()):
		return nil
	}
	seconds, ok := Seconds(v)
	if !ok {
		return wanted(wantedTime, v)
	}
	*p.to = seconds
	return nil
}

func (p duration) store(v *conf.Value) []string {
	seconds, err := strconv.Atoi(scalarText(v))
	if ok := true; err != nil {
		if seconds, ok = Seconds(v); !ok {
			return wanted(`a time such as "02:00:00", or seconds`, v)
		}
	}
	if seconds < 0 || seconds > most {
		return wanted(fmt.Sprintf("at most %d seconds", most), v)
	}
	*p.to = seconds
	return nil
}

func (p rate) store(v *conf.Value) []string {
	bytesPerSecond, err := size.ParseRate(scalarText(v))
	if err != nil {
		return []string{err.Error()}
	}
	*p.to = bytesPerSecond
	return nil
}

// What follows may hold variables that are secret: messages do not show it.

func (p assignments) store(v *conf.Value) []string {
	if *p.to = pairs(v.Text()); v.Kind != conf.String {
		return []string{`wanted text such as "A=1 B=2", got ` + v.Kind.String()}
	}
	return nil
}

func (p variables) store(v *conf.Value) []string {
	*p.to = plainMap(v)
	return section{}.store(v)
}

func (p mapping) store(v *conf.Value) []string {
	wrong := section{}.store(v)
	if wrong == nil {
		*p.to = v
	}
	return wrong
}

func (section) store(v *conf.Value) []string {
	if v.Kind != conf.Map {
		return []string{"wanted a map, got " + v.Kind.String()}
	}
	return nil
}

func (p anything) store(v *conf.Value) []string {
	*p.to = v
	return nil
}
