//go:build cgo

package device

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// GPUs lists the GPUs of this host in the order of NVML. No driver, or no GPU, is an empty list.
func GPUs() ([]GPU, error) {
	switch code := nvml.Init(); code {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_NOT_FOUND:
		return nil, nil
	default:
		return nil, fmt.Errorf("NVML: init: %w", errors.New(nvml.ErrorString(code)))
	}
	defer nvml.Shutdown()
	count, code := nvml.DeviceGetCount()
	if code != nvml.SUCCESS {
		return nil, fmt.Errorf("NVML: count: %s", nvml.ErrorString(code))
	}
	var gpus []GPU
	for i := range count {
		g, err := describe(i)
		if err != nil {
			return nil, err
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}

// describe asks NVML for the facts of one GPU. The first call that fails ends it, and its code is the error.
func describe(index int) (GPU, error) {
	g := GPU{Index: index}
	d, code := nvml.DeviceGetHandleByIndex(index)
	if code == nvml.SUCCESS {
		g.Name, code = d.GetName()
	}
	if code == nvml.SUCCESS {
		g.UUID, code = d.GetUUID()
	}
	if code == nvml.SUCCESS {
		var memory nvml.Memory
		memory, code = d.GetMemoryInfo()
		g.Memory = memory.Total
	}
	if code == nvml.SUCCESS {
		var pci nvml.PciInfo
		pci, code = d.GetPciInfo()
		g.PCI = text(pci.BusId[:])
	}
	if code != nvml.SUCCESS {
		return g, fmt.Errorf("NVML: GPU %d: %s", index, nvml.ErrorString(code))
	}
	return g, nil
}

// text reads a C string out of an array.
func text[T ~int8 | ~uint8](chars []T) string {
	var b []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
