package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// proofs names, for each of the ten lines of docs/security.md, the tests that show it: FOLDER.TEST. What only says whom
// perigee trusts has none.
var proofs = [10]string{
	1: "tools/disagg.TestNothingRuns",
	2: "lua.TestFilesOfTransfers lua.TestOutputs",
	3: "internal/kit/conf.TestLoad internal/result.TestWindowIsBounded",
	4: "internal/kit/plaintext.TestEscape internal/kit/page.TestPagesArePlain internal/kit/page.TestNothingLeavesThePage",
	5: "spmd/wire.TestStrangersDisturbNobody spmd/wire.TestForgedFramesAreFound",
	6: "nixl/capi.TestListenersOfOneHost e2e.TestListenersInsideAHost",
	7: "e2e.TestFullDisk tools/disagg/report.TestSecretsInResults",
	8: "e2e.TestSharedMemoryOfKilledRanks e2e/launchers.TestDeathOfTheLauncher",
}

// Every line of docs/security.md that promises something is shown by tests that exist.
func TestSecurityIsProven(t *testing.T) {
	text := string(read(t, "docs/security.md"))
	for i, tests := range proofs {
		if !strings.Contains(text, fmt.Sprintf("\n%d. ", i+1)) {
			t.Errorf("docs/security.md has no line %d", i+1)
		}
		for name := range strings.FieldsSeq(tests) {
			if !hasTest(t, name) {
				t.Errorf("line %d: there is no test %s", i+1, name)
			}
		}
	}
}

// hasTest reports whether there is a test FOLDER.NAME, and its script where it names one.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	folder, test, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	test, script, _ := strings.Cut(test, "/")
	if script != "" {
		if _, err := os.Stat(filepath.Join(root, folder, "testdata/script", script+".txtar")); err != nil {
			return false
		}
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	must.Do(t, err)
	declared := regexp.MustCompile(`(?m)^func ` + test + `\(`)
	for _, file := range files {
		data := must.Read(t, file)
		if declared.Match(data) {
			return true
		}
	}
	return false
}
