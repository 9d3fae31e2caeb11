//go:build cgo

package capi

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// The manual lists what is set before the library is loaded, with the values.
func TestManualListsVariables(t *testing.T) {
	data := must.Read(t, "../../docs/engines.md")
	values := map[string]string{}
	setting := regexp.MustCompile("`((?:UCX|NIXL)_[A-Z_]+)=([^`]+)`")
	_, list, _ := strings.Cut(string(data), "perigee sets these variables, unless you have set them:\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, match := range setting.FindAllStringSubmatch(list, -1) {
		values[match[1]] = match[2]
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
