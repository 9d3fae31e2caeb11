//go:build cgo

package capi

import (
	"regexp"
	"slices"
	"testing"

	"perigee/internal/kit/must"
)

// The manual lists what is set before the library is loaded, with the values.
func TestManualListsVariables(t *testing.T) {
	data := must.Read(t, "../../docs/engines.md")
	values := map[string]string{}
	code := regexp.MustCompile("`([^`]+)`")
	for _, row := range regexp.MustCompile(`(?m)^\| (.*(?:UCX|NIXL).*) \| (.*) \| .* \|$`).FindAllSubmatch(data, -1) {
		names, texts := code.FindAllSubmatch(row[1], -1), code.FindAllSubmatch(row[2], -1)
		for i, name := range names {
			values[string(name[1])] = string(texts[min(i, len(texts)-1)][1])
		}
	}
	for _, e := range slices.Concat(environment, tcpEnvironment, accountEnvironment) {
		if values[e[0]] != e[1] {
			t.Errorf("%s is %q, in the manual %q", e[0], e[1], values[e[0]])
		}
		delete(values, e[0])
	}
	for name := range values {
		t.Errorf("the manual says that %s is set", name)
	}
}
