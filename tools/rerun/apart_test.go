package rerun

import (
	"testing"

	"perigee/internal/kit/fault"
)

// The comparison is not written over the new result.
func TestPageApartFromResult(t *testing.T) {
	for _, c := range []struct {
		page, result string
		want         fault.Kind
	}{
		{"y.json", "./y.json", fault.Usage}, {"/tmp/../tmp/y.json", "/tmp/y.json", fault.Usage}, {"y.html", "y.json", 0}, {"", "", 0}, {"-", "-", 0},
	} {
		var cmd Cmd
		cmd.Page, cmd.Result = c.page, c.result
		err := cmd.apart()
		if (err != nil) != (c.want != 0) || err != nil && fault.KindOf(err) != c.want {
			t.Errorf("-o %q --result %q: %v", c.page, c.result, err)
		}
	}
}
