//go:build !cgo

// Package pmix is a small part of a PMIx client. This build has none: it was
// made without cgo.
package pmix

import "context"

// Library is the name under which the loader knows PMIx.
const Library = "libpmix.so.2"

// Client is never made in this build.
type Client struct{}

// Open returns a LoadError.
func Open(_ context.Context, path string) (*Client, error) {
	return nil, &LoadError{path, "this perigee was built without cgo"}
}

// Check returns a LoadError.
func Check(path string) error { return &LoadError{path, "this perigee was built without cgo"} }

func (*Client) Rank() int                       { panic("no client") }
func (*Client) JobNumber(string) (int, error)   { panic("no client") }
func (*Client) OwnNumber(string) (int, error)   { panic("no client") }
func (*Client) Put(string, string) error        { panic("no client") }
func (*Client) Fence() error                    { panic("no client") }
func (*Client) Get(int, string) (string, error) { panic("no client") }
func (*Client) Close() error                    { panic("no client") }
