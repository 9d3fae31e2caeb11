package replay

import (
	"fmt"
	"math"

	"perigee/internal/traffic/load"
)

// Place gives all transfers their places in the buffers of ranks.
func (s *Schedule) Place() (load.Schedule, error) { return load.NewSchedule(s.Load(), s.ranks()) }

func (s *Schedule) ranks() int { return s.Prefill.Ranks() + s.Decode.Ranks() }

// Fitting says with which --pool and with which --scale the buffers fit, where fits reports it of a schedule.
func (s *Schedule) Fitting(fits func(load.Schedule) bool) string {
	try := func(o Options) bool {
		other := *s
		other.Options = o
		other.geometry.num, other.geometry.den = fraction(o.Scale)
		placed, err := other.Place()
		return err == nil && fits(placed)
	}
	least, pooled := s.Load().Least(s.ranks()), s.Options
	pooled.Pool = least
	scale := s.lowerScale(try)
	switch isPool := try(pooled); {
	case isPool && scale > 0:
		return fmt.Sprintf("--pool %d, the least that holds the largest transfer, or --scale %v", least, scale)
	case isPool:
		return fmt.Sprintf("--pool %d, the least that holds the largest transfer", least)
	case scale > 0:
		return fmt.Sprintf("--scale %v; no --pool is small enough, since the largest transfer needs %d bytes of a rank's buffer",
			scale, least)
	}
	return fmt.Sprintf("fewer ranks on a host, or more hosts: the largest transfer needs %d bytes of a rank's buffer", least)
}

// lowerScale is the largest scale below that of the schedule, of those with a single digit 5, 2 or 1, which fits; 0:
// none.
func (s *Schedule) lowerScale(fits func(Options) bool) float64 {
	for power := 1; power <= 9; power++ {
		for _, digit := range [...]float64{5, 2, 1} {
			o := s.Options
			o.Scale = digit / math.Pow10(power)
			if o.Scale < s.Scale && fits(o) {
				return o.Scale
			}
		}
	}
	return 0
}
