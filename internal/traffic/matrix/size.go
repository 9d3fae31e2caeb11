package matrix

import "strconv"

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
