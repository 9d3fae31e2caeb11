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

func TestConformance(t *testing.T) { conformance.Run(t, open) }
