package disagg

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
)

// A size below 0 is refused; of the variable alone, what is no number is warned of.
func TestBatchSize(t *testing.T) {
	for _, tt := range []struct {
		option, variable string
		want             int
		says             string
	}{
		{"", "", 5, ""}, {"3", "7", 3, ""}, {"0", "", 0, ""}, {"", "7", 7, ""}, {"", "0", 0, ""},
		{"", "x", 5, `warning: DISAGG_BATCH_SIZE is "x", wanted a number`},
		{"-1", "", 0, `--batch-size: wanted a number from 0, which is all at once, got "-1"`}, {"x", "", 0, `--batch-size: wanted a number`},
		{"", "-3", 0, `DISAGG_BATCH_SIZE: wanted a number from 0, which is all at once, got "-3"`},
	} {
		var warnings bytes.Buffer
		c := RunCmd{BatchSize: tt.option}
		got, err := c.size(cli.Streams{Err: &warnings, Env: func(string) string { return tt.variable }})
		if err != nil && fault.KindOf(err) != fault.Usage {
			t.Error(err)
		}
		said := warnings.String()
		if err != nil {
			said += fmt.Sprint(err)
		}
		if got != tt.want || !strings.Contains(said, tt.says) || (tt.says == "") != (said == "") {
			t.Errorf("%+v: %d, %q", tt, got, said)
		}
	}
}
