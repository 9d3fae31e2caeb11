package trace

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/lazyre"
)

// unitOf has the units of timestamps that are numbers.
var unitOf = map[string]time.Duration{
	"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond,
}

// unitNames are the units in words; "" is that of dates.
var unitNames = map[string]string{
	"": "are dates", "s": "in seconds", "ms": "in milliseconds", "us": "in microseconds", "ns": "in nanoseconds",
}

// The years 2000 to 2100 in seconds since 1970.
const from2000, to2100 = 946_684_800, 4_102_444_800

// sinceEpoch returns the unit in which two times since 1970 are of the years 2000 to 2100, "" for none. Two units are
// 1000 apart, and these years less than five: no number fits two.
func sinceEpoch(first, last stamp) string {
	for unit, length := range unitOf {
		each := int64(time.Second / length)
		if first.whole >= from2000*each && last.whole < to2100*each {
			return unit
		}
	}
	return ""
}

// stamp is a number to the last billionth: a float64 has no nanoseconds of a time since 1970.
type stamp struct{ whole, billionths int64 } // billionths: 0 to 999,999,999

func (s stamp) compare(other stamp) int {
	return cmp.Or(cmp.Compare(s.whole, other.whole), cmp.Compare(s.billionths, other.billionths))
}

func (s stamp) before(other stamp) bool { return s.compare(other) < 0 }

// plus is the sum of two stamps. It is before s where it does not fit.
func (s stamp) plus(other stamp) stamp {
	sum := stamp{s.whole + other.whole, s.billionths + other.billionths}
	if sum.billionths >= 1e9 {
		sum.whole, sum.billionths = sum.whole+1, sum.billionths-1e9
	}
	return sum
}

// minus is the difference to an earlier stamp.
func (s stamp) minus(earlier stamp) float64 {
	return float64(uint64(s.whole-earlier.whole)) + float64(s.billionths-earlier.billionths)/1e9
}

// since is the time since an earlier stamp. What is left below a nanosecond is cut off.
func (s stamp) since(earlier stamp, unit time.Duration) time.Duration {
	scale := int64(time.Second / unit)
	return time.Duration(s.whole-earlier.whole)*unit + time.Duration(s.billionths/scale-earlier.billionths/scale)
}

// parseNumber reads a decimal number. One with an exponent has the precision of a float64.
func parseNumber(text string) (s stamp, ok bool) {
	if strings.ContainsAny(text, "eE") {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return s, false
		}
		text = strconv.FormatFloat(x, 'f', -1, 64)
	}
	const zeros = "000000000"
	whole, fraction, _ := strings.Cut(text, ".")
	var err error
	if s.whole, err = strconv.ParseInt(whole, 10, 64); err != nil || strings.Trim(fraction, "0123456789") != "" {
		return s, false
	}
	s.billionths, err = strconv.ParseInt((fraction + zeros)[:len(zeros)], 10, 64)
	if strings.HasPrefix(whole, "-") && s.billionths != 0 && s.whole > -1<<63 {
		s.whole, s.billionths = s.whole-1, 1e9-s.billionths
	}
	return s, err == nil
}

// parseDate reads a date as seconds since 1970.
func parseDate(text string) (s stamp, ok bool) {
	layout := "2006-01-02 15:04:05" // and fractions, which need no place in it
	if len(text) > len("2006-01-02") && text[len("2006-01-02")] == 'T' {
		layout = "2006-01-02T15:04:05"
	}
	text = strings.TrimSuffix(text, " UTC")
	t, err := time.Parse(layout, text)
	if err != nil {
		t, err = time.Parse(layout+"Z07:00", text)
	}
	return stamp{t.Unix(), int64(t.Nanosecond())}, err == nil
}

// dateLike matches what is meant as a date, whatever is wrong with it.
var dateLike = lazyre.New(`^"?(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(\D|$)`)

// dateFault says what is wrong with a date that cannot be read.
func dateFault(text string) string {
	text = strings.Trim(text, `"`)
	_, err := time.Parse("2006-01-02", text[:min(len(text), len("2006-01-02"))])
	if e, ok := errors.AsType[*time.ParseError](err); ok && e.Message != "" { // ": day out of range"
		return strings.TrimPrefix(e.Message, ": ")
	}
	if err != nil {
		return "year, month and day are not written so"
	}
	return "its time or zone is not written so"
}

// short shows a value in a message.
func short(text string) string {
	const most = 40
	switch {
	case text == "":
		return "nothing"
	case len(text) > most:
		return text[:most] + "..."
	}
	return text
}
