package shm

import (
	"testing"

	"perigee/nixl"
	"perigee/nixl/conformance"
)

func open() (nixl.Engine, error) { return New(), nil }

func TestMain(m *testing.M) { conformance.Main(m, open) }

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Setup{Open: open, Config: nixl.AgentConfig{OneHost: true}})
}
