package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/secret"
	"perigee/internal/kit/value"
	"perigee/internal/serving/benchlog"
)

// shown describes what a value holds.
func shown(v *conf.Value) string {
	switch v.Kind {
	case conf.List, conf.Map:
		return v.Kind.String()
	case conf.String:
		return value.Shown(secret.Text(v.Text()))
	}
	return value.Shown(v.Plain())
}

// clip is a text for messages: not too long, and without the values of variables that look secret.
func clip(s string) string {
	const longest = 60
	return plaintext.Cut(secret.Text(s), longest)
}

// isFinite reports whether v is a number that is neither infinite nor NaN.
func isFinite(v *conf.Value) bool {
	x := v.Float()
	return (v.Kind == conf.Int || v.Kind == conf.Float) && !math.IsNaN(x) && !math.IsInf(x, 0)
}

// pairs splits K=V words and drops the others, as the launcher does.
func pairs(s string) []string {
	words := strings.Fields(s)
	for i, word := range words { // a whole word may stand in quotes, which the launcher's shell takes away
		if n := len(word) - 1; n > 0 && (word[0] == '"' || word[0] == '\'') && word[n] == word[0] {
			words[i] = word[1:n]
		}
	}
	return slices.DeleteFunc(words, func(word string) bool { return strings.IndexByte(word, '=') < 1 })
}

// plainMap returns the values of a map as text, "" for nothing.
func plainMap(v *conf.Value) map[string]string {
	m := map[string]string{}
	for _, name := range v.Keys() {
		m[name] = ""
		if x := v.Get(name); x.Kind != conf.Null {
			m[name] = x.Written() // True, 1.0, or a commit such as 1234e56
		}
	}
	return m
}

// scalarText returns a scalar as text, "" for nothing.
func scalarText(v *conf.Value) string {
	switch v.Kind {
	case conf.String:
		return v.Text()
	case conf.Bool:
		return strconv.FormatBool(v.Bool())
	case conf.Int, conf.Float:
		return v.Written()
	}
	return ""
}

// levelsOf reads concurrency_list: text with blanks between, one integer, or a
// list. 16x32x64 is the notation of srtctl.
func levelsOf(v *conf.Value) (list []int, wrong []string) {
	var parts []string
	switch v.Kind {
	case conf.String:
		parts = strings.Fields(v.Text())
		if len(parts) == 1 && strings.Trim(parts[0], "0123456789x") == "" {
			parts = strings.Split(parts[0], "x")
		}
	case conf.Int:
		parts = []string{levelText(v)}
	case conf.List:
		for _, element := range v.List() {
			parts = append(parts, levelText(element))
		}
	default:
		return nil, []string{"wanted blank-separated integers, got " + shown(v)}
	}
	if len(parts) == 0 {
		return nil, []string{"concurrency_list is empty"}
	}
	if len(parts) > benchlog.MaxLevels {
		return nil, []string{fmt.Sprintf("wanted at most %d levels, got %d", benchlog.MaxLevels, len(parts))}
	}
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%q is not an integer (blank-separated)", clip(part)))
		case n < 1 || n > most:
			wrong = append(wrong, fmt.Sprintf("wanted levels from 1 to %d, got %d", most, n))
		default:
			list = append(list, n)
		}
	}
	return list, wrong
}

// levelText is scalarText with a whole number in decimal, however it is written.
func levelText(v *conf.Value) string {
	if v.Kind == conf.Int {
		return strconv.FormatInt(v.Int(), 10)
	}
	return scalarText(v)
}

// doubling lists the levels from start on, each twice the one before, up to end.
func doubling(start, end int) (list []int) {
	for level := start; level <= end; level *= 2 {
		list = append(list, level)
	}
	return list
}

// placeholder reports whether a value is still to be filled in.
func placeholder(s string) bool { return strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">") }

// asked are the minutes from which a bare number is asked about: YAML 1.1 reads an unquoted 10:00:00 so.
const asked = 10 * 3600

// minutes reads a bare number of a time limit as sbatch does, and returns seconds.
func minutes(v *conf.Value) (seconds int, wrong []string) {
	n := v.Int()
	switch {
	case n < 0 || n > most:
		return 0, wanted(wantedTime, v)
	case n >= asked:
		return 0, wanted(fmt.Sprintf("%q if it is seconds, as YAML 1.1 reads a time without quotes, or %q if it is minutes",
			timeText(int(n)), fmt.Sprintf("%d-%02d:%02d", n/1440, n/60%24, n%60)), v)
	}
	return int(n) * 60, nil
}

const wantedTime = `a time such as "02:00:00", or minutes`

// Seconds reads a time as Slurm has it: MM, MM:SS, HH:MM:SS, D-HH[:MM[:SS]].
func Seconds(v *conf.Value) (int, bool) {
	s := v.Text()
	days, rest, withDays := strings.Cut(s, "-")
	if !withDays {
		days, rest = "0", s
	}
	parts := strings.Split(rest, ":")
	if len(parts) > 3 {
		return 0, false
	}
	// Slurm reads MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.
	units := []int{60}
	switch {
	case withDays:
		units = []int{3600, 60, 1}[:len(parts)]
	case len(parts) > 1:
		units = []int{3600, 60, 1}[3-len(parts):]
	}
	total, err := strconv.Atoi(days)
	if err != nil || total < 0 || total > most/86400 {
		return 0, false
	}
	total *= 86400
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 1_000_000 {
			return 0, false
		}
		total += n * units[i]
	}
	return total, v.Kind == conf.String && total <= 2*most
}

// timeText formats seconds as Slurm reads them.
func timeText(seconds int) string {
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}
