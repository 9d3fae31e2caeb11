//go:build cgo

// Package pmix is a small part of a PMIx client: enough to read and write its
// key-value store. The library is loaded when it is needed, not linked.
package pmix

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "pmix.h"
*/
import "C"

import (
	"context"
	"fmt"
	"sync"
	"unsafe"
)

// Library is the name under which the loader knows PMIx.
const Library = "libpmix.so.2"

// Client is a connection to the PMIx server of this host. There is one in a
// process.
type Client struct {
	ctx context.Context
}

// only guards the library, which has one state per process. A call that was
// given up holds it for ever.
var only sync.Mutex

// Open loads the library at path and says hello to the server. When ctx ends,
// so do the waits of all methods.
func Open(ctx context.Context, path string) (*Client, error) {
	c := &Client{ctx}
	return c, c.call(func() error {
		if err := load(path); err != nil {
			return err
		}
		return status("PMIx_Init", C.perigee_pmix_init())
	})
}

// Check reports whether the library at path can be used. It is loaded for that, and
// stays so; no server is asked.
func Check(path string) error {
	only.Lock()
	defer only.Unlock()
	return load(path)
}

// load loads the library. Its caller holds only.
func load(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	why := make([]byte, 512)
	if C.perigee_pmix_load(name, (*C.char)(unsafe.Pointer(&why[0])), C.size_t(len(why))) != 0 {
		return &LoadError{path, C.GoString((*C.char)(unsafe.Pointer(&why[0])))}
	}
	return nil
}

// call runs a function of the library, which cannot be interrupted. If the
// context ends first the call goes on in a separate thread.
func (c *Client) call(f func() error) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		only.Lock()
		defer only.Unlock()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func status(what string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s (%d)", what, C.GoString(C.perigee_pmix_error(rc)), int(rc))
}

// Rank is this process's rank in its job.
func (c *Client) Rank() int { return int(C.perigee_pmix_rank()) }

// JobNumber returns a number that the server knows of the whole job, such as
// pmix.job.size.
func (c *Client) JobNumber(key string) (int, error) { return c.number(key, 1) }

// OwnNumber returns a number that the server knows of this rank, such as
// pmix.lrank.
func (c *Client) OwnNumber(key string) (int, error) { return c.number(key, 0) }

func (c *Client) number(key string, ofJob C.int) (n int, err error) {
	err = c.call(func() error {
		name := C.CString(key)
		defer C.free(unsafe.Pointer(name))
		var number C.uint32_t
		if err := status("PMIx_Get "+key, C.perigee_pmix_number(name, ofJob, &number)); err != nil {
			return err
		}
		n = int(number)
		return nil
	})
	return n, err
}

// Put publishes a text under a key, from the next Fence on.
func (c *Client) Put(key, text string) error {
	return c.call(func() error {
		name, value := C.CString(key), C.CString(text)
		defer C.free(unsafe.Pointer(name))
		defer C.free(unsafe.Pointer(value))
		return status("PMIx_Put "+key, C.perigee_pmix_put(name, value))
	})
}

// Fence waits for all ranks of the job. The error is ErrRankEnded if one will not come.
func (c *Client) Fence() error {
	return c.call(func() error {
		rc := C.perigee_pmix_fence()
		if rc == C.PERIGEE_PMIX_PARTIAL_SUCCESS {
			return ErrRankEnded
		}
		return status("PMIx_Fence", rc)
	})
}

// Get returns what a rank has published under a key before the last Fence.
func (c *Client) Get(rank int, key string) (text string, err error) {
	err = c.call(func() error {
		name := C.CString(key)
		defer C.free(unsafe.Pointer(name))
		var value *C.char
		if err := status("PMIx_Get "+key, C.perigee_pmix_get(C.uint32_t(rank), name, &value)); err != nil {
			return err
		}
		defer C.free(unsafe.Pointer(value))
		text = C.GoString(value)
		return nil
	})
	return text, err
}

// Close says goodbye to the server.
func (c *Client) Close() error {
	return c.call(func() error { return status("PMIx_Finalize", C.perigee_pmix_finalize()) })
}
