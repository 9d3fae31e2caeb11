package result

import (
	"io"
	"strings"
	"testing"
)

// A result has at most 1 TiB of text, however it is compressed.
func TestTextIsBounded(t *testing.T) {
	for n, want := range map[int64]string{maxSize - 4: "", maxSize - 3: "more than 1 TiB of JSON"} {
		_, err := io.ReadAll(&counted{r: strings.NewReader("text"), n: n})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v, want %q", n+4, err, want)
		}
	}
}
