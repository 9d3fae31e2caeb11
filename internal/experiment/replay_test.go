package experiment

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/traffic/play"
)

// What ranks carry together counts from when the last has begun until the first has ended, of posts that reach beyond
// that their part.
func TestTogether(t *testing.T) {
	const s = 1e9
	post := func(from, to, bytes int64) play.Timed { return play.Timed{Posted: from * s, End: to * s, Bytes: bytes} }
	for name, c := range map[string]struct {
		ranks [][]play.Timed
		want  float64
	}{
		"one":        {[][]play.Timed{nil, {post(0, 2, 10), post(2, 4, 30)}}, 10},
		"two":        {[][]play.Timed{{post(0, 4, 40), post(4, 10, 60)}, {post(2, 6, 80)}, nil}, 10 + 20},
		"one by one": {[][]play.Timed{{post(0, 2, 40)}, {post(2, 4, 40)}}, 20},
	} {
		if got := together(c.ranks); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s: %g bytes per second, want %g", name, got, c.want)
		}
	}
}

// Records come as they were sent, and what is torn is noticed.
func TestRecordsOnTheirWay(t *testing.T) {
	list := []play.Timed{
		{Transfer: 5, Due: 1 << 60, Admitted: 1<<60 + 1, Posted: 1<<60 - 7, End: 1<<60 + 9, Bytes: 1 << 40}, {Transfer: 1 << 30},
	}
	packed := packTimed(list, -1<<61)
	if got, until, err := readTimed(packed); err != nil || until != -1<<61 || !cmp.Equal(got, list) {
		t.Errorf("%+v until %d, %v", got, until, err)
	}
	for n := range packed {
		if _, _, err := readTimed(packed[:n]); err == nil {
			t.Errorf("%d of %d bytes were taken", n, len(packed))
		}
	}
}
