package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// StorageOp describes the bytes that a rank reads from a file and writes to it while it plays a pattern.
type StorageOp struct {
	Path     string
	FileSize int64 // bytes; a file that is not there is made with so many
	// The pieces that are read and written; a size of 0 is nothing. They lie within FileSize.
	ReadOffset, ReadSize, WriteOffset, WriteSize int64
	// Overwrite allows to write to a file that is there.
	Overwrite bool
}

// check validates that both pieces lie in the file.
func (o StorageOp) check() error {
	for _, part := range []struct {
		what      string
		off, size int64
	}{{"read", o.ReadOffset, o.ReadSize}, {"write", o.WriteOffset, o.WriteSize}} {
		if part.off < 0 || part.size < 0 || part.size > o.FileSize || part.off > o.FileSize-part.size {
			return fmt.Errorf("%s_offset %d and %s_size %d do not lie within file_size %d",
				part.what, part.off, part.what, part.size, o.FileSize)
		}
	}
	switch {
	case o.Path == "":
		return errors.New("it has no file_path")
	case o.ReadSize == 0 && o.WriteSize == 0:
		return errors.New("it neither reads nor writes: read_size and write_size are 0")
	}
	return nil
}

// checkStorage validates the storage operations. The result is the same on every rank.
func (p Pattern) checkStorage(ranks int) error {
	for _, rank := range slices.Sorted(maps.Keys(p.Storage)) {
		if rank < 0 || rank >= ranks {
			return fault.New(fault.Input, "%s: storage_ops names rank %d, but there are %d ranks", p.Label(), rank,
				ranks)
		}
		if err := p.Storage[rank].check(); err != nil {
			return fault.New(fault.Input, "%s: storage_ops of rank %d: %w", p.Label(), rank, err)
		}
	}
	return nil
}

// Files are those of the rank's storage operation.
func (p Pattern) Files(rank int, lane Lane) []File {
	o, ok := p.Storage[rank]
	if !ok || lane != Files {
		return nil
	}
	return []File{{
		For: "storage_ops", Path: o.Path, Made: o.Path, Size: o.FileSize, Existing: o.FileSize,
		Write: o.WriteSize > 0, Overwrite: o.Overwrite,
		Allow: "name a file that does not exist, or run with --allow-io",
	}}
}

// storageBlock is how much of a file a descriptor moves at most.
const storageBlock = 1 << 20

// storageTransfers lists what is read first, then what is written, each if there is any.
func (p Pattern) storageTransfers(rank int) (list []Transfer) {
	o := p.Storage[rank]
	add := func(op nixl.Op, off, size int64) {
		if size == 0 {
			return
		}
		local, _ := sides(op, nixl.DRAM, nixl.FILE)
		list = append(list, Transfer{
			Op: op, Peer: nixl.Self, Local: local, Remote: Place{Mem: nixl.FILE},
			LocalAt: cut(0, size, storageBlock), RemoteAt: cut(off, size, storageBlock),
		})
	}
	add(nixl.Read, o.ReadOffset, o.ReadSize)
	add(nixl.Write, o.WriteOffset, o.WriteSize)
	return list
}

// cut lists pieces of a length, the last of which may be shorter.
func cut(off, size, piece int64) (list []nixl.Desc) {
	for done := int64(0); done < size; done += piece {
		list = append(list, nixl.Desc{Off: off + done, Len: min(piece, size-done)})
	}
	return list
}

func (p Pattern) storagePosts(list []Post, rank int) []Post {
	o := p.Storage[rank]
	if o.ReadSize > 0 {
		list = append(list, Post{nixl.Read, nixl.Self, o.ReadSize})
	}
	if o.WriteSize > 0 {
		list = append(list, Post{nixl.Write, nixl.Self, o.WriteSize})
	}
	return list
}

// storageMessages compares what is read with the file as it is. A part that the
// same operation writes may change while it is read, and is not compared.
func (p Pattern) storageMessages(rank int) (sent, received []Message) {
	o, file := p.Storage[rank], Place{Mem: nixl.FILE}
	overlap := o.ReadOffset < o.WriteOffset+o.WriteSize && o.WriteOffset < o.ReadOffset+o.ReadSize
	if o.ReadSize > 0 && !overlap {
		received = append(received, Message{
			Sender: rank, Receiver: rank, Place: Place{Side: Recv}, Pieces: []nixl.Desc{{Off: 0, Len: o.ReadSize}},
			Original: &Origin{file, []nixl.Desc{{Off: o.ReadOffset, Len: o.ReadSize}}},
		})
	}
	if o.WriteSize > 0 {
		m := Message{Sender: rank, Receiver: rank, Key: []int{rank, rank, 1}}
		m.Place, m.Pieces = Place{Side: Send}, []nixl.Desc{{Off: 0, Len: o.WriteSize}}
		sent = append(sent, m)
		m.Place, m.Pieces = file, []nixl.Desc{{Off: o.WriteOffset, Len: o.WriteSize}}
		received = append(received, m)
	}
	return sent, received
}
