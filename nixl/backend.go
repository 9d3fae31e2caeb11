package nixl

import (
	"slices"
	"strings"
)

// Backend is the plugin of NIXL that the user wants, and its parameters. No name leaves the choice to the engine.
type Backend struct {
	Name   string
	Params map[string]string
}

// FilesOnly is an engine whose backend moves bytes between memory and files, and not between ranks.
type FilesOnly interface {
	FilesOnly() Backend
	NotForRanks() error // the error of traffic between ranks
}

// storage are the plugins of NIXL that reach storage. All others connect ranks.
var storage = []string{"POSIX", "GDS", "GDS_MT", "HF3FS", "OBJ", "AZURE_BLOB", "GUSLI", "INFINIA"}

// EarlyBackend reports whether a backend may call a WRITE complete before its bytes are at the target. LIBFABRIC does
// over TCP; of what could not be tried it is assumed.
func EarlyBackend(name string) bool {
	return name != "memfd" && !strings.HasPrefix(strings.ToUpper(name), "UCX") && !ReachesFiles(name)
}

// ReachesFiles reports whether a plugin of this name, in either case, is one for storage.
func ReachesFiles(name string) bool {
	return slices.ContainsFunc(storage, func(s string) bool { return strings.EqualFold(s, name) })
}
