package traffic

import "fmt"

// sizeText writes a number of bytes for people: three digits and a decimal unit.
func sizeText(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 999.5 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return fmt.Sprintf("%.3g %cB", v, units[i])
}
