//go:build cgo

package capi

/*
#cgo CFLAGS: -O2 -Wall -Wextra -std=gnu11
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "papi.h"

static bool is_stub(const papi *api) { return api->is_stub(); }
*/
import "C"

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// environment is set before the library is loaded; see the package comment.
var environment = [][2]string{
	{"NIXL_LOG_LEVEL", "FATAL"},
	{"UCX_POSIX_SHM_MIN_SIZE", "1"},
	{"UCX_VFS_ENABLE", "n"},
	{"UCX_MEM_MMAP_HOOK_MODE", "none"},
	{"UCX_HANDLE_ERRORS", "none"},
	{"UCX_DEBUG_SIGNO", "0"},
}

// tcpEnvironment is set before the first agent that may use UCX's transport tcp: without that transport UCX warns of
// variables that nothing reads.
var tcpEnvironment = [][2]string{
	{"UCX_TCP_USER_TIMEOUT", "6s"},
	{"UCX_TCP_KEEPIDLE", "2s"},
	{"UCX_TCP_KEEPINTVL", "1s"},
	{"UCX_TCP_KEEPCNT", "4"},
}

// loaded keeps every library for good: its threads and plugins do not survive being
// unloaded.
var loaded struct {
	sync.Mutex
	engines map[string]*Engine
}

// Engine is a loaded library. It implements nixl.Engine.
type Engine struct {
	path    string
	version string
	api     *C.papi      // in C memory
	tight   bool         // no memory is to be shared inside the host
	backend nixl.Backend // that connects ranks; no name: UCX
	devices string       // that UCX may use; "" for those of the environment
}

// OnDevices returns an engine for whose agents the list stands in place of UCX_NET_DEVICES. All agents of a process are
// to have the same.
func (e *Engine) OnDevices(list string) *Engine {
	other := *e
	other.devices = list
	return &other
}

// netDevices are those that UCX may use, "" for all.
func (e *Engine) netDevices() string { return cmp.Or(e.devices, os.Getenv("UCX_NET_DEVICES")) }

// WithoutSharedMemory returns an engine whose agents use sockets inside a host, where Tight gives a reason. All agents
// that meet must be of one kind.
func (e *Engine) WithoutSharedMemory() *Engine {
	other := *e
	other.tight = true
	return &other
}

// textSize is enough for what C functions write about themselves.
const textSize = 4096

// text calls f with room for a C string and returns what f wrote.
func text(f func(p *C.char, size C.size_t)) string {
	p := (*C.char)(C.calloc(1, textSize))
	defer C.free(unsafe.Pointer(p))
	f(p, textSize)
	return C.GoString(p)
}

// loaderPath asks the dynamic loader where a name leads; "" is nowhere. To ask is to load, and what is found may not.
func loaderPath(name string) (path string, err error) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	opening.Lock()
	defer opening.Unlock()
	setEnvironment()
	var status C.int
	words := text(func(p *C.char, size C.size_t) { status = C.papi_where(n, p, size) })
	switch {
	case status == 0:
		return words, nil
	case strings.Contains(words, name+": ") && strings.Contains(words, "No such file"):
		return "", nil
	}
	return "", errors.New(words)
}

func setEnvironment() {
	accountFile.once.Do(openAccount)
	for _, e := range environment {
		setVariable(e[0], e[1], false)
	}
}

// setVariable sets a variable for the library; Go's own copy of the environment stays.
func setVariable(name, value string, overwrite bool) {
	n, v := C.CString(name), C.CString(value)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(v))
	if overwrite {
		C.setenv(n, v, 1)
	} else {
		C.setenv(n, v, 0)
	}
}

// Load opens the library in a file. The same file gives the same engine.
func Load(path string) (*Engine, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if e := loaded.engines[path]; e != nil {
		return e, nil
	}
	file, err := filepath.Abs(path) // a name without a slash would be looked for elsewhere
	if err != nil {
		return nil, fault.New(fault.Engine, "load NIXL: %w", err)
	}
	api := (*C.papi)(C.calloc(1, C.sizeof_papi))
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	var missing C.int
	if os.Getenv("GOTRACEBACK") == "" { // who asks for Go's dump gets it
		C.papi_catch_crashes(C.int(fault.Engine))
	}
	opening.Lock()
	setEnvironment()
	words := text(func(p *C.char, size C.size_t) { missing = C.papi_load(name, api, p, size) })
	opening.Unlock()
	e := &Engine{path: path, version: versionOf(path), api: api}
	if err := e.check(int(missing), words); err != nil {
		C.free(unsafe.Pointer(api))
		return nil, err
	}
	if loaded.engines == nil {
		loaded.engines = map[string]*Engine{}
	}
	loaded.engines[path] = e
	return e, nil
}

// check turns the outcome of papi_load into an error.
func (e *Engine) check(missing int, words string) error {
	switch {
	case missing < 0:
		return fault.New(fault.Engine, "NIXL does not load: %s", words).WithHint(installHint)
	case missing > 0:
		return fault.New(fault.Engine, "%s (version %s) is too old or too new: it lacks %s", e.path, e.version,
			strings.Join(plaintext.First(strings.Fields(words), 4, "and %d more"), " ")).
			WithHint("perigee knows the NIXL versions 1.4 and 1.5; %s", installHint)
	case bool(C.is_stub(e.api)):
		return fault.New(fault.Engine, "%s is a stub, built without NIXL", e.path).WithHint(installHint)
	}
	return nil
}

// Info implements nixl.Engine.
func (e *Engine) Info() nixl.Info {
	return nixl.Info{Name: "nixl", Version: e.version, Backend: cmp.Or(e.backend.Name, ucx),
		Library: filepath.Base(e.path), Can: nixl.Can{GPU: true, Counts: true}}
}

// mode is how an agent's backend works.
type mode struct {
	thread bool       // the library makes progress by itself
	delay  C.uint64_t // how long its thread sleeps, in microseconds
	errors string     // UCX's error handling
	why    string     // what decided over the thread
	device string     // the network device that UCX may use, or "" for all or those of the environment
	tls    string     // UCX's transports, or "" for those of the environment
	copies string     // the bandwidth that UCX assumes of memcpy, or "" for its own guess
}

// config is what of a mode is UCX's parameter engine_config: settings without UCX_, with commas between them.
func (m mode) config() string {
	var list []string
	if m.device != "" {
		list = append(list, "NET_DEVICES="+m.device)
	}
	if m.copies != "" {
		list = append(list, "BCOPY_BW="+m.copies)
	}
	return strings.Join(list, ",")
}

// copies makes UCX take memcpy for what an agent sends to itself. In a cache it is faster than that; by UCX's own guess
// a call to the kernel is faster from 6 KB on. Between the processes of a host there is no such choice. It is not true
// of the memory of GPUs.
const copies = "50000MBs"

// chooseMode follows the package comment. tls and devices are the user's values of UCX_TLS and
// UCX_NET_DEVICES; attach reports whether cross-memory attach works at all, tight whether memory cannot be shared.
func chooseMode(cfg nixl.AgentConfig, tls, devices string, attach, tight bool) (mode, error) {
	m := mode{errors: "peer", delay: C.PAPI_UCX_DELAY_US}
	if cfg.OneHost {
		m.errors = "none"
		if devices == "" {
			m.device = "lo"
		}
	}
	if tls == "" {
		m.tls = "^sysv"
		switch {
		case tight:
			m.tls = "^sysv,posix"
		case cfg.OneHost && devices == "":
			m.tls = "^sysv,tcp"
			if !cfg.VRAM {
				m.copies = copies
			}
		}
		tls = m.tls
	}
	switch cfg.Progress {
	case "thread":
		m.thread, m.why = true, "asked for"
	case "poll":
		m.why = "asked for"
	case "", "auto":
		switch {
		case !cfg.OneHost:
			m.thread, m.why = true, "several hosts"
		case cfg.VRAM:
			m.thread, m.why = true, "GPU memory"
		case !attach:
			m.thread, m.why = true, "no cross-memory attach"
		case !reachesMemory(tls):
			m.thread, m.why = true, "UCX_TLS="+tls
		default:
			m.why = "one host"
		}
	default:
		return m, fault.New(fault.Usage, "progress %q: want auto, thread or poll", cfg.Progress)
	}
	return m, nil
}

// reachesMemory reports whether a list of UCX transports has one by which an initiator reaches a process's memory
// without that process: cma, beside one through shared memory, which UCX takes for its messages. With
// cma and tcp alone UCX also moves the bytes of transfers by tcp, which the target has to receive.
func reachesMemory(tls string) bool {
	names, except := device.Transports(tls)
	has := func(name string) bool { return slices.Contains(names, name) }
	all := len(names) == 0 || has("all") || has("sm") || has("shm")
	if except {
		return !all && !has("cma") && !(has("posix") && has("sysv"))
	}
	return all || has("cma") && (has("posix") || has("sysv"))
}

// mayUseTCP reports whether a list of UCX transports has tcp.
func mayUseTCP(tls string) bool {
	names, except := device.Transports(tls)
	return slices.Contains(names, "tcp") != except || !except && (len(names) == 0 || slices.Contains(names, "all"))
}

// NewAgent implements nixl.Engine.
func (e *Engine) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	if err := checkName(cfg.Name); err != nil {
		return nil, fault.New(fault.Internal, "nixl: %w", err)
	}
	own, err := kernel.Self()
	if err != nil {
		return nil, fault.New(fault.Engine, "nixl: %w", err)
	}
	// A process can always attach to itself, except in containers that forbid the call; the rule decides about peers.
	_, allowed := device.Attach("/")
	tight := e.tight || !cfg.OneHost && Tight(lonely) != ""
	m := mode{thread: true, why: e.backend.Name + ", never sleeps"}
	if cfg.OneHost {
		m.delay, m.why = C.PAPI_NAP_US, e.backend.Name+" on one host"
	}
	if e.usesUCX() {
		m, err = chooseMode(cfg, os.Getenv("UCX_TLS"), e.netDevices(), allowed && canAttach(own) == nil, tight)
		if err != nil {
			return nil, err
		}
		if os.Getenv("UCX_BCOPY_BW") != "" {
			m.copies = ""
		}
	}
	a := &agent{
		engine: e, cfg: cfg, own: own, mode: m, name: C.CString(cfg.Name),
		c:         (*C.papi_agent)(C.calloc(1, C.sizeof_papi_agent)),
		peers:     map[int]*peer{},
		links:     map[string]*link{},
		processes: map[kernel.ProcessID]*kernel.Watched{},
		batches:   map[*batch]struct{}{},
		lists:     map[*list]struct{}{},
	}
	a.c.api = e.api
	if !cfg.OneHost && e.usesUCX() {
		nics, _ := device.NICs("/sys") // none where the kernel does not show them
		a.lanes = device.Lanes(nics, e.netDevices())
	}
	if err := a.open(); err != nil {
		C.free(unsafe.Pointer(a.name))
		C.free(unsafe.Pointer(a.c))
		return nil, err
	}
	alive.Store(cfg.Name, true)
	return a, nil
}

// open creates the library's agent and its backend.
func (a *agent) open() error {
	plugin := a.engine.Info().Backend
	name, backend, params := C.CString(a.cfg.Name), C.CString(plugin), paramWords(a.params())
	for _, p := range []*C.char{name, backend, params} {
		defer C.free(unsafe.Pointer(p))
	}
	var what *C.char
	opening.Lock()
	if a.mode.tls != "" {
		setVariable("UCX_TLS", a.mode.tls, true)
	}
	if mayUseTCP(cmp.Or(a.mode.tls, os.Getenv("UCX_TLS"))) {
		for _, e := range tcpEnvironment {
			setVariable(e[0], e[1], false)
		}
	}
	if a.engine.devices != "" { // the parameter engine_config cannot hold a list
		setVariable("UCX_NET_DEVICES", a.engine.devices, true)
	}
	status := C.papi_open(a.c, name, C.bool(a.mode.thread), a.mode.delay, backend, params, &what)
	opening.Unlock()
	if status == 0 {
		return nil
	}
	agentExists := a.c.agent != nil
	plugins := text(func(p *C.char, size C.size_t) { C.papi_plugins(a.c, p, size) })
	C.papi_close(a.c)
	if agentExists && !slices.Contains(strings.Fields(plugins), plugin) {
		return fault.New(fault.Engine, "NIXL has no %s plugin in %s; it has %q", plugin,
			a.engine.pluginFolder(), plugins).
			WithHint("check NIXL_PLUGIN_DIR; %s; ranks of one host can do without: --engine shm", installHint)
	}
	failed := fault.New(fault.Engine, "NIXL could not %s: %s",
		cmp.Or(C.GoString(what), "create the "+plugin+" backend"), describeStatus(int(status)))
	if !a.engine.usesUCX() {
		return failed.WithHint("%s", backendHint(plugin))
	}
	if why := Tight(1); why != "" && a.mode.tls != "" {
		return fault.Wrap(failed, "%s", why).WithHint(RoomHint + ", or set UCX_TLS=^sysv,posix, which is slower and does without")
	}
	if why := device.LackingHere(); why != "" {
		return fault.Wrap(failed, "%s", why).WithHint("name devices of this host, or unset UCX_NET_DEVICES")
	}
	if why := noTransport(); why != "" {
		return fault.Wrap(failed, "%s", why).
			WithHint("unset UCX_TLS, or name transports that this host has (ucx_info -d lists them with their devices)")
	}
	if err := settingsOutOfReach(os.Getenv("HOME")); err != nil {
		return fault.Wrap(failed, "NIXL may not look for its settings at HOME (%v)", err).
			WithHint("set HOME to a folder that this user may enter")
	}
	if len(a.engine.backend.Params) > 0 {
		return failed.WithHint("does %s take the values of --backend-param? %s", plugin, accountHint)
	}
	return failed.WithHint(accountHint)
}

// usesUCX reports whether ranks are connected by UCX, of which there is a variant.
func (e *Engine) usesUCX() bool {
	return e.backend.Name == "" || strings.HasPrefix(e.backend.Name, ucx)
}

// params are the parameters of the agent's backend: the user's, and with UCX those of its mode that the user leaves.
func (a *agent) params() map[string]string {
	params := map[string]string{}
	if a.mode.errors != "" {
		params["ucx_error_handling_mode"] = a.mode.errors
	}
	// The parameter device_list would append a port to a device's name, which network interfaces do not have.
	if config := a.mode.config(); config != "" {
		params["engine_config"] = config
	}
	maps.Copy(params, a.engine.backend.Params)
	return params
}

// opening guards the environment while the library is loaded and agents are made.
var opening sync.Mutex

// settingsOutOfReach is the error of a home that this user may not look into. NIXL looks there for its settings, and
// gives up without a word.
func settingsOutOfReach(home string) error {
	if _, err := os.Lstat(filepath.Join(home, ".nixl.cfg")); errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

const accountHint = "set NIXL_LOG_LEVEL=INFO and UCX_LOG_LEVEL=info to see the library's own account"

// describeStatus words the library's status codes.
func describeStatus(status int) string {
	switch status {
	case -1:
		return "invalid parameter"
	case -2:
		return "the backend failed"
	case -3:
		return "invalid state"
	case -4:
		return "exception"
	case -5:
		return "no telemetry"
	case -6:
		return "not found: the peer's metadata is not loaded, or no backend serves the request"
	}
	return "status " + strconv.Itoa(status)
}
