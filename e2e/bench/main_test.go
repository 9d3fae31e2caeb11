package main

import (
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

func TestChosenSections(t *testing.T) {
	if all, err := chosen(nil); err != nil || len(all) != len(sections) {
		t.Errorf("%d of %d sections, %v", len(all), len(sections), err)
	}
	some, err := chosen([]string{"files", "nixl"})
	if err != nil || len(some) != 2 || some[0].name != "files" || some[1].name != "nixl" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := chosen([]string{"nixl", "disk"}); err == nil || !strings.Contains(err.Error(), `no section "disk": there are shm, nixl, `) {
		t.Errorf("%v", err)
	}
}

func TestSectionsAreDocumented(t *testing.T) {
	text := must.Read(t, "../../docs/truth.md")
	for _, s := range sections {
		if !strings.Contains(string(text), "\n- `"+s.name+"`:") {
			t.Errorf("docs/truth.md does not explain %s", s.name)
		}
	}
	if rows := strings.Count(string(text), "\n- `"); rows != len(sections) {
		t.Errorf("docs/truth.md explains %d sections, there are %d", rows, len(sections))
	}
}
