//go:build cgo

package capi

import (
	"testing"

	"perigee/nixl"
	"perigee/nixl/conformance"
)

// open finds the library as the product does. Its absence is an error, and no reason to
// skip: `make test` provides it.
func open() (nixl.Engine, error) {
	path, _, err := Find("")
	if err != nil {
		return nil, err
	}
	e, err := Load(path)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func TestMain(m *testing.M) { conformance.Main(m, open) }

// TestConformance runs on one host, as the ranks of a host and as ranks of several hosts do.
func TestConformance(t *testing.T) {
	configs := map[string]nixl.AgentConfig{
		"OneHost":       {OneHost: true, Progress: "auto"},
		"OneHostThread": {OneHost: true, Progress: "thread"},
		"Hosts":         {Progress: "auto"},
	}
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, conformance.Setup{Open: open, Config: cfg})
		})
	}
}
