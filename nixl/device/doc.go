// Package device is the hardware below a transfer: kinds of memory (Memory: host, GPU, file), GPUs and network
// interfaces. Both engines allocate through it, so that a buffer is the same whichever engine moves it; perigee doctor
// and the description of hosts in results list hardware with it.
//
// Memory (device.go) is the interface that an engine registers: an address, a size, NIXL's device number, and copies
// from and to host memory for filling and checking. Host (memory.go) has its pages present before it is used, on a
// boundary of huge pages; CUDA.Memory (cuda.go) lies in a GPU, and OpenFile (file.go, make.go) is a local file. All
// sizes are bytes. A lack of memory, of reserved huge pages or of a GPU is an error of kind Resource whose hint says
// what to change.
//
// The CUDA driver and NVML are loaded at run time and never linked, so that one binary serves machines with and
// without GPUs. GPUs are listed by NVML, those that a process may use by CUDA (Visible): CUDA_VISIBLE_DEVICES hides
// some and changes their order. A machine without either is an ordinary machine without GPUs, and no error. In a build
// without cgo (nocgo.go) there are none.
//
// NICs and CountTraffic (nics.go) read /sys below a root that tests choose. Attach reads the kernel's rule for
// reaching another process's memory, on which UCX's fastest way inside a host depends. Trouble and Access word what is
// known of a file when a transfer has failed, or was slower or faster than a disk can be.
package device
