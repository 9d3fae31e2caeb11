package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

func TestIndent(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int().AsAny(), rapid.String().AsAny(),
			rapid.SampledFrom([]any{`"`, `\`, `\"`, `{[,:]}`, []any{}, map[string]any{}}))
		if depth == 0 {
			return leaf
		}
		inner := value(depth - 1)
		return rapid.OneOf(leaf, rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		compact, err := json.Marshal(value(4).Draw(t, "value"))
		must.Do(t, err)
		var want, got bytes.Buffer
		json.Indent(&want, compact, "", "  ")
		in := &indenter{w: bufio.NewWriter(&got)}
		for len(compact) > 0 {
			n := rapid.IntRange(1, len(compact)).Draw(t, "piece")
			in.Write(compact[:n])
			compact = compact[n:]
		}
		if got.String() != want.String() {
			t.Fatalf("got %s, want %s", got.String(), want.String())
		}
	})
	if _, err := (&indenter{w: bufio.NewWriter(fullDisk{})}).Write([]byte("{}")); !errors.Is(err, errFullDisk) {
		t.Errorf("on a full disk: %v", err)
	}
}

type fullDisk struct{}

var errFullDisk = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFullDisk }
