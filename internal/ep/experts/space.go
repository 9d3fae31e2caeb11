package experts

import (
	"errors"

	"perigee/nixl"
)

// space is the two halves of a rank's registered memory: messages leave from the one and arrive in the other. Those
// in a GPU's memory have copies in host memory, in which messages are made and checked. Ranges are copied between the
// two outside of all times.
type space struct {
	send, recv []byte // the memory itself, or the copies

	// The memory of a GPU, nil for host memory; the receive half begins at from in its buffer.
	gpuSend, gpuRecv nixl.Buffer
	from             int64
}

// newSpace takes two buffers; the receive half lies between two guards in its own.
func newSpace(send, recv nixl.Buffer, guard int64) space {
	if send.Mem() != nixl.VRAM {
		return space{send: send.Bytes(), recv: recv.Bytes()[guard : recv.Size()-guard]}
	}
	return space{
		send: make([]byte, send.Size()), recv: make([]byte, recv.Size()-2*guard),
		gpuSend: send, gpuRecv: recv, from: guard,
	}
}

// onGPU reports whether the halves are in a GPU's memory.
func (s *space) onGPU() bool { return s.gpuSend != nil }

// push copies a range of the send half to the GPU. For host memory nothing is to do.
func (s *space) push(from, to int64) error {
	if !s.onGPU() {
		return nil
	}
	_, err := s.gpuSend.WriteAt(s.send[from:to], from)
	return err
}

// pull copies a range of the receive half from the GPU. For host memory nothing is to do.
func (s *space) pull(from, to int64) error {
	if !s.onGPU() {
		return nil
	}
	_, err := s.gpuRecv.ReadAt(s.recv[from:to], s.from+from)
	return err
}

// pushAll copies both halves to the GPU.
func (s *space) pushAll() error {
	if !s.onGPU() {
		return nil
	}
	_, err := s.gpuRecv.WriteAt(s.recv, s.from)
	return errors.Join(s.push(0, int64(len(s.send))), err)
}
