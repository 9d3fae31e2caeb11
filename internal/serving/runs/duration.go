package runs

import (
	"math"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/lazyre"
)

// iso8601 matches durations without years and months, whose length depends on
// the calendar. Only the last figure may have a fraction.
var iso8601 = lazyre.New(`^P(?:(\d+(?:[.,]\d+)?)W)?(?:(\d+(?:[.,]\d+)?)D)?(?:T(?:(\d+(?:[.,]\d+)?)H)?(?:(\d+(?:[.,]\d+)?)M)?(?:(\d+(?:[.,]\d+)?)S)?)?$`)

var secondsOf = [...]float64{7 * 24 * 3600, 24 * 3600, 3600, 60, 1} // by group of iso8601

// parseDuration returns the seconds of an ISO 8601 duration such as PT49.97S or
// PT1H2M, or of a plain number of seconds.
func parseDuration(v *conf.Value) (float64, error) {
	if x, ok := asNumber(v); ok && x >= 0 && !math.IsInf(x, 0) {
		return x, nil
	}
	m := iso8601.FindStringSubmatch(v.Text())
	wrong := v.Errorf("wanted a duration such as PT49.97S or PT1H2M, got %s", shown(v))
	if m == nil {
		return 0, wrong
	}
	var sum float64
	some := false
	for i, figure := range m[1:] {
		if figure == "" {
			continue
		}
		x, err := strconv.ParseFloat(strings.ReplaceAll(figure, ",", "."), 64)
		if err != nil {
			return 0, wrong
		}
		sum += x * secondsOf[i]
		some = true
	}
	if !some || math.IsInf(sum, 0) {
		return 0, wrong
	}
	return sum, nil
}
