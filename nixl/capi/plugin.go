//go:build cgo

package capi

/*
#include <stdlib.h>
#include "papi.h"
*/
import "C"

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

const ucx = "UCX"

// unlisted are parameters that plugins take and do not list, by plugin; of others the library's list is complete. A
// plugin that lists nothing takes any.
var unlisted = map[string][]string{
	"UCX": {"device_list", "engine_config", "num_threads", "split_batch_size", "ucx_ep_close_force",
		"ucx_num_device_channels"},
	"LIBFABRIC": {"max_bw_per_dram_seg", "post_queue_size", "striping_threshold"},
	"GUSLI":     {"try_use_uring"},
}

// secrets are parameters that would show on the command line and in the result, with the variables that plugins read
// instead.
var secrets = map[string]string{
	"access_key": "AWS_ACCESS_KEY_ID", "secret_key": "AWS_SECRET_ACCESS_KEY", "session_token": "AWS_SESSION_TOKEN",
	"connection_string": "AZURE_STORAGE_CONNECTION_STRING",
}

// needs says what plugins cannot do without.
var needs = map[string]string{
	"LIBFABRIC": "a libfabric as new as the plugin, with a provider for a device of this host (fi_info -l), and CUDA's libraries",
	"GPUNETIO":  "an NVIDIA GPU and adapter, and DOCA's libraries",
	"Mooncake":  "Mooncake's transfer engine",
	"GDS":       "an NVIDIA GPU, libcufile and its storage driver (gdscheck -p); --backend POSIX does without",
	"GDS_MT":    "an NVIDIA GPU, libcufile and its storage driver (gdscheck -p); --backend POSIX does without",
	"OBJ": "a bucket and keys: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, --backend-param bucket=NAME, and for other stores than AWS " +
		"--backend-param endpoint_override=URL",
	"AZURE_BLOB": "AZURE_STORAGE_CONNECTION_STRING, or --backend-param account_url=URL, and --backend-param container_name=NAME",
	"GUSLI":      "block devices, listed in --backend-param config_file=TEXT",
	"INFINIA":    "DDN's client libraries and --backend-param config_file=FILE",
	"HF3FS":      "a mounted 3FS: --backend-param mount_point=FOLDER",
}

// backendHint says what to do where a step with a plugin has failed.
func backendHint(plugin string) string {
	for name, what := range needs {
		if strings.EqualFold(name, plugin) {
			return plugin + " needs " + what + "; " + accountHint
		}
	}
	return accountHint
}

// WithBackend returns an engine that connects ranks by another plugin, or by UCX with these parameters. A plugin for
// storage it leaves to [nixl.AgentConfig] and only checks. Errors are of the kind Usage where the
// library has no such plugin or parameter, and of the kind Engine where it does not load.
func (e *Engine) WithBackend(b nixl.Backend) (_ *Engine, found Plugin, err error) {
	p, err := e.plugin(cmp.Or(b.Name, ucx))
	if err != nil {
		return nil, p, err
	}
	if err := p.check(b.Params); err != nil {
		return nil, p, err
	}
	other := *e
	if !p.Files {
		other.backend = nixl.Backend{Name: p.Name, Params: b.Params}
	}
	return &other, p, nil
}

// plugin loads the plugin of a name, in either case.
func (e *Engine) plugin(asked string) (p Plugin, err error) {
	c := (*C.papi_agent)(C.calloc(1, C.sizeof_papi_agent))
	c.api = e.api
	own := C.CString("perigee-plugins")
	var what *C.char
	opening.Lock()
	status := C.papi_start(c, own, false, 0, &what)
	opening.Unlock()
	defer func() {
		C.papi_close(c)
		C.free(unsafe.Pointer(own))
		C.free(unsafe.Pointer(c))
	}()
	if status < 0 {
		return p, fail(status, "%s", C.GoString(what))
	}
	names := strings.Fields(text(func(t *C.char, size C.size_t) { C.papi_plugins(c, t, size) }))
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, asked) })
	if i < 0 {
		slices.Sort(names)
		return p, fault.New(fault.Usage, "--backend %s: NIXL %s has no such plugin in %s; it has %s", asked, e.version,
			e.pluginFolder(), strings.Join(names, ", ")).
			WithHint("take one of these, or set NIXL_PLUGIN_DIR to a folder that has libplugin_%s.so", asked)
	}
	p.Name = names[i]
	name := C.CString(p.Name)
	defer C.free(unsafe.Pointer(name))
	var mems C.uint
	p.keys = strings.Fields(text(func(t *C.char, size C.size_t) { status = C.papi_plugin(c, name, t, size, &mems) }))
	if status < 0 {
		words := describeStatus(int(status))
		if _, why := loaderPath(filepath.Join(e.pluginFolder(), "libplugin_"+p.Name+".so")); why != nil {
			words += ": " + why.Error()
		}
		return p, fault.New(fault.Engine, "NIXL could not load the plugin %s: %s", p.Name, words).
			WithHint("%s", backendHint(p.Name))
	}
	p.Objects = mems&(1<<C.PAPI_OBJECT) != 0
	p.Files = p.Objects || mems&(1<<C.PAPI_FILE|1<<C.PAPI_BLOCK) != 0
	return p, nil
}

// pluginFolder is where the library looks for plugins.
func (e *Engine) pluginFolder() string {
	return cmp.Or(os.Getenv("NIXL_PLUGIN_DIR"), filepath.Join(filepath.Dir(e.path), "plugins"))
}

// check refuses parameters that the plugin does not take, and those that are secrets.
func (p Plugin) check(params map[string]string) error {
	known := slices.Concat(p.keys, unlisted[p.Name])
	slices.Sort(known)
	for _, key := range slices.Sorted(maps.Keys(params)) {
		if variable := secrets[key]; variable != "" {
			return fault.New(fault.Usage, "--backend-param %s: a secret on the command line is seen by all users of the host, and kept in results",
				key).WithHint("set the variable %s", variable)
		}
		if p.Name == posix && strings.HasPrefix(key, "use_") {
			return fault.New(fault.Usage, "--backend-param %s: perigee sets it, by the interface for files", key).
				WithHint("--posix_api_type AIO or URING, of kvbench")
		}
		if len(p.keys) > 0 && !slices.Contains(known, key) {
			return fault.New(fault.Usage, "--backend-param %s: NIXL's plugin %s has no such parameter; it has %s", key,
				p.Name, strings.Join(known, ", "))
		}
	}
	return nil
}

// paramWords writes parameters as C's functions take them, in C memory.
func paramWords(params map[string]string) *C.char {
	var b []byte
	for _, key := range slices.Sorted(maps.Keys(params)) {
		b = append(append(append(append(b, key...), 0), params[key]...), 0)
	}
	return (*C.char)(C.CBytes(append(b, 0, 0)))
}
