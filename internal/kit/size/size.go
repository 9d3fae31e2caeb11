// Package size reads and writes numbers of bytes, on command lines, in matrix files and scripts, and in everything
// that perigee prints.
//
// The units are those of GNU dd and df:
//
//	B                      1
//	K, M, G, T, P          powers of 1024, as KiB, MiB, GiB, TiB, PiB
//	kB, MB, GB, TB, PB     powers of 1000
//
// Upper and lower case mean the same. A single letter is binary because the matrix files of the original matrix
// generator use it so.
//
// Parse is exact for digits alone; with a unit or an exponent it has the precision of a float64, and cuts off what is
// left below one byte. Four functions write: Binary exactly, for sizes that were chosen; BinaryRounded and Decimal
// with three digits, in powers of 1024 or of 1000, for those that were measured; Rate as Decimal, by the second. Bytes
// is a flag of a command line. A size that is wrong, negative or too large for an int64 is a plain error, to which the
// caller adds where it stood.
package size

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// prefixes are the letters of the units in ascending order.
const prefixes = "KMGTP"

// unit describes the letters behind a number: base to the power exponent.
type unit struct {
	base     int64
	exponent int
}

// cutUnit splits text into a number and its unit. ok is false where there is no unit.
func cutUnit(s string) (number string, u unit, ok bool) {
	rest, isByte := cutLetter(s, 'b')
	rest, isBinary := cutLetterIf(rest, 'i', isByte)
	for i := range len(prefixes) {
		number, found := cutLetter(rest, prefixes[i]|0x20)
		switch {
		case !found:
			continue
		case isByte && !isBinary:
			return number, unit{1000, i + 1}, true
		}
		return number, unit{1024, i + 1}, true
	}
	if isBinary {
		return s, unit{}, false // "iB" without a letter
	}
	return rest, unit{1024, 0}, isByte
}

// cutLetter cuts a letter of either case, given in lower case, off the end.
func cutLetter(s string, letter byte) (rest string, ok bool) {
	if n := len(s); n > 0 && s[n-1]|0x20 == letter {
		return s[:n-1], true
	}
	return s, false
}

func cutLetterIf(s string, letter byte, condition bool) (rest string, ok bool) {
	if !condition {
		return s, false
	}
	return cutLetter(s, letter)
}

// factor is the number of bytes of the unit. Of no unit it is 1.
func (u unit) factor() int64 {
	n := int64(1)
	for range u.exponent {
		n *= u.base
	}
	return n
}

// Parse reads a number of bytes: "4096", "64K", "64 MiB", "1.5G", "64MB", "1e6", "4.47035e+06G".
// With a unit the number may have a fraction, and what is left below one byte is cut off; without one
// it must be whole, however it is written ("1048576.0"). Numbers of digits alone are exact, others have the precision
// of a float64. Signs, other units, and sizes that do not fit an int64 are errors.
func Parse(s string) (int64, error) {
	number, u, hasUnit := cutUnit(s)
	if hasUnit {
		number = strings.TrimSuffix(number, " ")
	}
	if isDigits(number) {
		whole, err := strconv.ParseInt(number, 10, 64)
		if err != nil || whole > math.MaxInt64/u.factor() {
			return 0, tooLarge(s)
		}
		return whole * u.factor(), nil
	}
	if !isDecimal(number) {
		return 0, malformed(s)
	}
	value, err := strconv.ParseFloat(number, 64)
	switch {
	case math.IsInf(value, 0):
		return 0, tooLarge(s)
	case err != nil:
		return 0, malformed(s)
	}
	value *= float64(u.factor())
	switch {
	case value >= 1<<63:
		return 0, tooLarge(s)
	case !hasUnit && value != math.Trunc(value):
		return 0, fmt.Errorf("wanted a whole number of bytes, got %s", quote(s))
	}
	return int64(value), nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isDecimal refuses what strconv.ParseFloat reads besides decimal numbers: a sign in front, "inf",
// "nan", hexadecimal digits.
func isDecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.eE+-") == "" && s[0] != '+' && s[0] != '-'
}

func malformed(s string) error {
	if strings.HasPrefix(s, "-") {
		return fmt.Errorf("wanted 0 bytes or more, got %s", quote(s))
	}
	return fmt.Errorf("wanted a number of bytes such as 4096, 64K, 64MiB or 1e6, got %s", quote(s))
}

func tooLarge(s string) error {
	return fmt.Errorf("wanted at most %d bytes, got %s", int64(math.MaxInt64), quote(s))
}

// quote shows text of unknown origin in a message: escaped and not too long.
func quote(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// Bytes is a number of bytes that is written as [Parse] reads it, for command lines.
type Bytes int64

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := Parse(string(text))
	*b = Bytes(n)
	return err
}

// Decimal writes a number of bytes with three digits and a unit that is a power of 1000: "1.18 MB".
func Decimal[N ~int64 | ~float64](bytes N) string {
	return format(float64(bytes), 1000, []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"})
}

// Exact writes a number of bytes as Decimal does, and from 1 kB on the number itself beside it:
// "1.18 MB (1179648 bytes)".
func Exact(bytes int64) string {
	if bytes < 1000 {
		return Decimal(bytes)
	}
	return fmt.Sprintf("%s (%d bytes)", Decimal(bytes), bytes)
}

// Rate writes a rate in bytes per second as Decimal does: "25.0 GB/s".
func Rate[N ~int64 | ~float64](bytesPerSecond N) string { return Decimal(bytesPerSecond) + "/s" }

// Binary writes a number of bytes in the largest unit, a power of 1024, that divides it: "64 KiB",
// "1152 KiB", "1000 B". Nothing is rounded, so it suits sizes that were chosen, not measured.
func Binary(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for bytes >= 1024 && bytes%1024 == 0 && i < len(units)-1 {
		bytes /= 1024
		i++
	}
	return fmt.Sprintf("%d %s", bytes, units[i])
}

// BinaryRounded writes a number of bytes with three digits and a unit that is a power of 1024: "1.12 MiB".
func BinaryRounded(bytes int64) string {
	return format(float64(bytes), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"})
}

// format writes three digits or, below the next unit, four.
func format(v, base float64, units []string) string {
	i := 0
	for v >= base-0.5 && i < len(units)-1 {
		v, i = v/base, i+1
	}
	switch {
	case i == 0 || v >= 99.95:
		return fmt.Sprintf("%.0f %s", v, units[i])
	case v >= 9.995:
		return fmt.Sprintf("%.1f %s", v, units[i])
	}
	return fmt.Sprintf("%.2f %s", v, units[i])
}
