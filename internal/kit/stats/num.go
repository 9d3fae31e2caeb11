package stats

import (
	"encoding/json"
	"math"
	"strconv"
)

// Num is a figure that may be missing: NaN, which is null in JSON.
type Num float64

// None is a missing figure.
var None = Num(math.NaN())

// Known reports whether there is a figure.
func (n Num) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes null for what is missing.
func (n Num) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return []byte(strconv.FormatFloat(float64(n), 'g', -1, 64)), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Num) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = None
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}
