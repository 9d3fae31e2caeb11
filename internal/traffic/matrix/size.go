package matrix

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unitShift returns the power of two that a unit letter of either case stands
// for.
func unitShift(letter byte) (shift int, ok bool) {
	switch letter {
	case 'b', 'B':
		return 0, true
	case 'k', 'K':
		return 10, true
	case 'm', 'M':
		return 20, true
	case 'g', 'G':
		return 30, true
	}
	return 0, false
}

// ParseSize reads a number of bytes: a whole number ("4096"), or a number with
// a unit ("5K", "1.5G", "4.47035e+06G"). The units are B, K, M and G in either
// case, powers of 1024. With a unit the number may have a fraction and an
// exponent; what is left below one byte is cut off. Whole numbers are exact,
// others have the precision of a float64. Signs, spaces, other units, and
// sizes that do not fit an int64 are errors.
func ParseSize(s string) (int64, error) {
	if s == "" {
		return 0, sizeError(s)
	}
	shift, hasUnit := unitShift(s[len(s)-1])
	number := s
	if hasUnit {
		number = s[:len(s)-1]
	}
	if isDigits(number) {
		whole, err := strconv.ParseInt(number, 10, 64)
		if err != nil || whole > math.MaxInt64>>shift {
			return 0, tooLarge(s)
		}
		return whole << shift, nil
	}
	if !hasUnit || !isDecimal(number) {
		return 0, sizeError(s)
	}
	value, err := strconv.ParseFloat(number, 64)
	switch {
	case math.IsInf(value, 0):
		return 0, tooLarge(s)
	case err != nil:
		return 0, sizeError(s)
	}
	value = math.Ldexp(value, shift)
	if value >= 1<<63 {
		return 0, tooLarge(s)
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

// isDecimal keeps away what strconv.ParseFloat also reads: a sign, "inf",
// "nan", hexadecimal digits. A sign is left to the exponent.
func isDecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.eE+-") == "" && s[0] != '+' && s[0] != '-'
}

func sizeError(s string) error {
	if strings.HasPrefix(s, "-") {
		return fmt.Errorf("wanted 0 bytes or more, got %s", quote(s))
	}
	return fmt.Errorf("wanted a whole number of bytes, or a number with a unit (B, K, M, G), got %s", quote(s))
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

// FormatSize writes a number of bytes the way the original matrix generator
// does: divided by 1024 at most three times (B, K, M, G) while it is 1024 or
// more, rounded to two decimals, printed with six significant digits and the
// unit; 0 is "0". Much is lost: 2472615936 becomes "2.3G", which reads back as
// 2469606195. Use it only where files must look like the original's; plain
// numbers lose nothing.
func FormatSize(bytes float64) string {
	if bytes == 0 {
		return "0"
	}
	const units = "BKMG"
	unit := 0
	for bytes >= 1024 && unit < len(units)-1 {
		bytes /= 1024
		unit++
	}
	// What FormatFloat writes can always be read.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(bytes, 'f', 2, 64), 64)
	return strconv.FormatFloat(rounded, 'g', 6, 64) + units[unit:unit+1]
}
