package device

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Attach reads the kernel's rule for reaching the memory of other processes of a user, which UCX does inside a
// host: kernel.yama.ptrace_scope below a root folder, "" for a kernel without. allowed reports whether this process may
// do it under that rule; scope 1 allows it, because UCX lets its peers in.
func Attach(root string) (scope string, allowed bool) {
	text, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/yama/ptrace_scope"))
	if err != nil {
		return "", true
	}
	switch scope = strings.TrimSpace(string(text)); scope {
	case "0", "1":
		return scope, true
	case "2":
		return scope, mayTrace()
	}
	return scope, false
}

// mayTrace reports whether this process has the capability SYS_PTRACE.
func mayTrace() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // of 32 capabilities each
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return false
	}
	return sets[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
