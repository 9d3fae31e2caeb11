// Package engines chooses the transfer engine of a job. It is a separate package because nixl cannot import the
// engines that implement it, and callers should not need to know which there are: experiments open an engine here, and
// only here is it decided what "auto" means.
//
// The choice is NVIDIA's NIXL wherever its library loads, since users want to know what their serving stack will see.
// shm takes its place on one host, where nothing else is installed; the note that Open returns says why, and is a
// warning where the user would expect NIXL. On several hosts there is no second engine, so a lack of NIXL is an error.
//
// Tight, Sweep and SweepOld pass on questions about /dev/shm to package capi, so that the launcher need not import
// cgo's side of it: NIXL's library crashes where the segments of all ranks do not fit, and leaves files behind where
// ranks are killed.
package engines

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/capi"
	"perigee/nixl/shm"
)

// The choices that a user has.
const (
	Auto = "auto"
	NIXL = "nixl"
	SHM  = "shm"
)

// embedded are the engines that are built in, for ranks of one host. The first stands in for a NIXL that lacks.
var embedded = []struct {
	name string
	make func() nixl.Engine
}{
	{SHM, func() nixl.Engine { return shm.New() }},
}

// Names are the choices that a user has.
func Names() []string {
	names := []string{Auto, NIXL}
	for _, e := range embedded {
		names = append(names, e.name)
	}
	return names
}

// builtIn makes the embedded engine of a choice, nil where the choice is none.
func builtIn(choice string) nixl.Engine {
	for _, e := range embedded {
		if e.name == choice {
			return e.make()
		}
	}
	return nil
}

// Warning begins a note that the user should not miss.
const Warning = "WARNING: "

// Open returns the engine that choice asks for:
//
//	nixl   NVIDIA's library, found by capi.Find; library, if not empty, names it
//	shm    the embedded engine, for ranks of one host
//	auto   nixl if its library loads, else shm if all ranks share a host
//
// If auto has to do without NIXL, note says why, in one line. The note begins with Warning where the user would expect
// NIXL: a library was found and does not load, or a variable asks for it. It is an error all the same if library was
// named, or if there are several hosts. Every rank must get the same engine: let one rank choose and send its
// Info().Name to the others.
//
// tight is the answer of Tight at a rank of the one host, or "": all ranks must pass the same. A backend that the user
// wants is NIXL's, but for POSIX without parameters, which shm has, too.
func Open(choice, library string, oneHost bool, tight string, want nixl.Backend) (nixl.Engine, string, error) {
	if err := CheckBackend(choice, want); err != nil {
		return nil, "", err
	}
	if !reachesFiles(want) && !HostOnly(choice) {
		choice = NIXL
	}
	if want.Name != "" && !strings.HasPrefix(strings.ToUpper(want.Name), "UCX") {
		tight = "" // it is about UCX
	}
	engine, note, err := open(choice, library, oneHost, tight, loadNIXL)
	if err == nil {
		engine, err = with(engine, want)
	}
	if err != nil {
		return nil, "", err
	}
	if name := engine.Info().Backend; nixl.EarlyBackend(name) {
		note = fmt.Sprintf("%s may call a WRITE complete before its bytes are at the target, so that its time says when the "+
			"initiator was done; a READ has its bytes", name)
	}
	return engine, note, nil
}

// HostOnly reports whether a choice moves bytes inside the memory of a host, by nothing that the environment changes.
func HostOnly(choice string) bool { return builtIn(choice) != nil }

const posix = "POSIX"

// reachesFiles reports whether embedded engines have what the user wants: nothing, or files.
func reachesFiles(b nixl.Backend) bool {
	return (b.Name == "" || strings.EqualFold(b.Name, posix)) && len(b.Params) == 0
}

// CheckBackend refuses a backend, or parameters, that have no effect with a choice of the engine.
func CheckBackend(choice string, want nixl.Backend) error {
	if !HostOnly(choice) || reachesFiles(want) {
		return nil
	}
	given := "--backend " + want.Name
	if len(want.Params) > 0 {
		given = "--backend-param"
	}
	return fault.New(fault.Usage, "%s has no effect on --engine %s, which copies between the memory of processes", given,
		choice).WithHint("backends are NIXL's: --engine nixl; %s reaches files as POSIX does", choice)
}

// with gives an engine the backend that the user wants.
func with(engine nixl.Engine, want nixl.Backend) (nixl.Engine, error) {
	if want.Name == "" && len(want.Params) == 0 {
		return engine, nil
	}
	e, ok := engine.(*capi.Engine)
	if !ok {
		return forFiles{engine, nixl.Backend{Name: posix}, false}, nil
	}
	e, p, err := e.WithBackend(want)
	switch {
	case err != nil:
		return nil, err
	case p.Files:
		return forFiles{e, nixl.Backend{Name: p.Name, Params: want.Params}, p.Objects}, nil
	}
	return e, nil
}

// forFiles is an engine for files alone. It implements [nixl.FilesOnly].
type forFiles struct {
	nixl.Engine
	backend nixl.Backend
	objects bool
}

// FilesOnly implements nixl.FilesOnly.
func (e forFiles) FilesOnly() nixl.Backend { return e.backend }

// NotForRanks implements nixl.FilesOnly.
func (e forFiles) NotForRanks() error { return NotForRanks(e.backend.Name) }

// NotForRanks is the error of what goes between ranks by a backend for files.
func NotForRanks(backend string) error {
	return fault.New(fault.Usage, "--backend %s moves bytes between memory and storage, and these go from rank to rank",
		backend).WithHint("without it UCX moves them; perigee run kvbench --backend %s measures storage", backend)
}

// NewAgent makes an agent that reaches files by the backend, unless the configuration names another one.
func (e forFiles) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	if cfg.FileBackend == "" || cfg.FileBackend == e.backend.Name {
		cfg.FileBackend, cfg.FileParams, cfg.FileObjects = e.backend.Name, e.backend.Params, e.objects
	}
	a, err := e.Engine.NewAgent(cfg)
	if err != nil {
		return nil, err
	}
	return fileAgent{a, e.backend.Name}, nil
}

// fileAgent is an agent without peers.
type fileAgent struct {
	nixl.Agent
	backend string
}

// AddPeer refuses all peers.
func (a fileAgent) AddPeer(int, []byte) error { return NotForRanks(a.backend) }

// Tight says why so many ranks of this host cannot share memory through NIXL, or nothing if they can. Ask it before any
// rank has made an agent.
func Tight(ranks int) string { return capi.Tight(ranks) }

// Sweep removes what killed ranks of a job that began at since have left behind on this host, and returns
// the names; see capi.Sweep. The launcher calls it after all ranks have ended. It needs no engine.
func Sweep(since time.Time) (removed []string) { return capi.Sweep(since) }

// SweepOld removes what killed ranks of earlier jobs have left behind on this host, and returns the names; see
// capi.SweepOld. One rank of each host calls it.
func SweepOld() (removed []string, err error) { return capi.SweepOld() }

// Flush writes out what C's streams hold, such as a library's log; see capi.Flush. Call it before the process leaves.
func Flush() { capi.Flush() }

func loadNIXL(library string) (nixl.Engine, error) {
	path, err := capi.Find(library)
	if err != nil {
		return nil, err
	}
	e, err := capi.Load(path)
	if err != nil {
		return nil, err // not e: a nil *Engine in an interface is not nil
	}
	return e, nil
}

// open is Open with a function that loads the library, so that tests need none.
func open(choice, library string, oneHost bool, tight string,
	load func(string) (nixl.Engine, error)) (nixl.Engine, string, error) {
	switch choice {
	case NIXL:
		e, err := load(library)
		if err != nil {
			return nil, "", err
		}
		return confined(e, tight)
	case Auto, "":
	default:
		e := builtIn(choice)
		switch {
		case e == nil:
			return nil, "", fault.New(fault.Usage, "unknown engine %q: want %s", choice, strings.Join(Names(), ", "))
		case !oneHost:
			return nil, "", fault.New(fault.Engine,
				"the %s engine serves ranks of one host only, and this job has several", choice).
				WithHint("use --engine nixl (pip install nixl-cu12)")
		}
		return e, "", nil
	}
	e, err := load(library)
	switch {
	case err == nil:
		return confined(e, tight)
	case library != "":
		return nil, "", err
	case !oneHost:
		return nil, "", fault.New(fault.Engine, "ranks on several hosts need NIXL: %w", err)
	}
	instead := embedded[0]
	note := fmt.Sprintf("%s instead of nixl: %v", instead.name, err)
	// A library that is there and does not load, or a variable about it, shows that the user wants NIXL.
	if !errors.Is(err, capi.ErrNone) || os.Getenv("NIXL_PLUGIN_DIR") != "" {
		note = Warning + note
	}
	return instead.make(), note, nil
}

// OnDevices lets UCX use these network devices only, in the form of UCX_NET_DEVICES; "" changes nothing. An engine
// without UCX is returned as it is.
func OnDevices(engine nixl.Engine, devices string) nixl.Engine {
	if e, ok := engine.(*capi.Engine); ok && devices != "" {
		return e.OnDevices(devices)
	}
	return engine
}

// confined gives NIXL what is left inside a host where memory cannot be shared.
func confined(e nixl.Engine, tight string) (nixl.Engine, string, error) {
	nixl, ok := e.(*capi.Engine)
	if tight == "" || !ok || os.Getenv("UCX_TLS") != "" {
		return e, "", nil
	}
	return nixl.WithoutSharedMemory(), fmt.Sprintf("UCX uses TCP inside the host, which is slower, and listens to every "+
		"user of it: %s; %s, or take --engine shm", tight, capi.RoomHint), nil
}
