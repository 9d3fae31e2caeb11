package report

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// What is no result of perigee is named, with the command that reads it.
func TestOtherDoor(t *testing.T) {
	asIs := errors.New("as it is")
	const client = "../../internal/serving/benchlog/testdata/vllm.json"
	for path, want := range map[string]string{
		t.TempDir():                        "wanted a result of perigee, got a folder",
		client:                             "wanted a result of perigee, got one of vLLM",
		filepath.Join(t.TempDir(), "none"): asIs.Error(),
		"door_test.go":                     asIs.Error(),
		"../../internal/serving/benchlog/testdata/sglang.log": "got one of SGLang",
	} {
		if got := otherDoor(path, asIs).Error(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}
