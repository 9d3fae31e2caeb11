//go:build cgo

package capi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl"
)

// bucket is an object store with as much of S3 as NIXL's plugin OBJ needs.
type bucket struct {
	sync.Mutex
	objects map[string][]byte
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.Lock()
	defer b.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	data, ok := b.objects[key]
	switch {
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
			body, err = unchunked(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.objects[key] = body
	case !ok:
		http.NotFound(w, r)
	default:
		var from, to int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
			from, to = 0, len(data)-1
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(data[from : to+1])
	}
}

// all returns the objects that are there now.
func (b *bucket) all() map[string][]byte {
	b.Lock()
	defer b.Unlock()
	return maps.Clone(b.objects)
}

// unchunked takes apart a body of aws-chunked coding: hexadecimal lengths, chunks, trailers.
func unchunked(body []byte) (data []byte, err error) {
	r := bufio.NewReader(bytes.NewReader(body))
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 32)
		if err != nil || n == 0 {
			return data, err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(r, chunk); err != nil {
			return nil, err
		}
		data = append(data, chunk[:n]...)
	}
}

// objectAgent is an agent with a store of objects.
func objectAgent(t *testing.T) (nixl.Agent, *bucket) {
	t.Helper()
	store := &bucket{objects: map[string][]byte{}}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return newAgent(t, nixl.AgentConfig{
		Name: "objects", OneHost: true, FileBackend: "OBJ", FileObjects: true,
		FileParams: map[string]string{"bucket": "bucket", "endpoint_override": server.URL, "scheme": "http"},
	}), store
}

// Each block is an object: what is written arrives in the store under its key, and what is there is read.
func TestObjects(t *testing.T) {
	a, store := objectAgent(t)
	const block, count = 4096, 5
	memory, err := a.Alloc(nixl.DRAM, block*count)
	must.Do(t, err)
	far, err := a.OpenFile(nixl.File{Path: "dir/cache", Size: block * count, Make: true, Write: true})
	must.Do(t, err)
	for i := range memory.Bytes() {
		memory.Bytes()[i] = byte(i*7 + i/block)
	}
	want := bytes.Clone(memory.Bytes())
	descs := func(order ...int64) (list []nixl.Desc) {
		for _, k := range order {
			list = append(list, nixl.Desc{Off: k * block, Len: block})
		}
		return list
	}
	run := func(op nixl.Op, near, there []nixl.Desc) {
		t.Helper()
		b, err := a.NewBatch([]nixl.Transfer{{Op: op, Peer: nixl.Self, LocalBuffer: memory.ID(), RemoteBuffer: far.ID(), Local: near, Remote: there}})
		must.Do(t, err)
		must.Do(t, b.Run(nixl.Control{}, 2, nil))
		must.Do(t, b.Release())
	}
	run(nixl.Write, descs(0, 1, 2, 3, 4), descs(4, 3, 2, 1, 0))
	objects := store.all()
	for k := range count {
		key := fmt.Sprintf("dir/cache-%d-%d", block, count-1-k)
		if got := objects[key]; !bytes.Equal(got, want[k*block:(k+1)*block]) {
			t.Errorf("object %s has %d bytes, which are not block %d", key, len(got), k)
		}
	}
	clear(memory.Bytes())
	run(nixl.Read, descs(0, 1, 2, 3, 4), descs(4, 3, 2, 1, 0))
	if !bytes.Equal(memory.Bytes(), want) {
		t.Error("what was read is not what was written")
	}
	// A piece in the middle of two blocks.
	piece := bytes.Repeat([]byte{0xAB}, block)
	if _, err := far.WriteAt(piece, block/2); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2*block)
	if _, err := far.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[block/2:block/2+block], piece) || !bytes.Equal(got[:block/2], want[4*block:4*block+block/2]) || got[2*block-1] != want[4*block-1] {
		t.Error("a piece over two objects is wrong, or what is around it")
	}
}

// Reading needs objects that are there, with bytes.
func TestObjectsToRead(t *testing.T) {
	a, store := objectAgent(t)
	memory, err := a.Alloc(nixl.DRAM, 8192)
	must.Do(t, err)
	far, err := a.OpenFile(nixl.File{Path: "k", Size: 8192, Make: true})
	must.Do(t, err)
	transfer := nixl.Transfer{Op: nixl.Read, Peer: nixl.Self, LocalBuffer: memory.ID(), RemoteBuffer: far.ID(), Local: []nixl.Desc{{Off: 0, Len: 4096}, {Off: 4096, Len: 4096}}}
	transfer.Remote = transfer.Local
	b, err := a.NewBatch([]nixl.Transfer{transfer})
	must.Do(t, err)
	must.Do(t, b.Run(nixl.Control{}, 1, nil))
	objects := store.all()
	if bytes.Equal(memory.Bytes()[:4096], make([]byte, 4096)) || !bytes.Equal(memory.Bytes()[:4096], objects["k-4096-0"]) || len(objects) != 2 {
		t.Errorf("%d objects, or other bytes than those in the store", len(objects))
	}
	transfer.Remote = []nixl.Desc{{Off: 0, Len: 4096}, {Off: 100, Len: 4096}}
	_, err = a.NewBatch([]nixl.Transfer{transfer})
	wantFault(t, err, fault.Input, "descriptor 1: 4096 bytes at offset 100", "wanted blocks of one length")
}
