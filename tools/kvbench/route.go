package kvbench

import (
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/value"
)

// The words of nixlbench.
const (
	dram    = "DRAM"
	vram    = "VRAM"
	opRead  = "READ"
	opWrite = "WRITE"
)

// The words of --source and --destination.
const (
	fromFile   = "file"
	fromMemory = "memory"
	fromGPU    = "gpu"
)

// backend is a backend of nixlbench.
type backend struct {
	name    string // as nixlbench spells it
	storage bool
	sources []string // that --source may be; nil: --destination decides, too
}

var backends = []backend{
	{"UCX", false, []string{fromMemory, fromGPU}},
	{"UCX_MO", false, []string{fromMemory, fromGPU}},
	{"GPUNETIO", false, []string{fromMemory, fromGPU}},
	{"Mooncake", false, []string{fromMemory, fromGPU}},
	{"GDS", true, []string{fromFile, fromMemory, fromGPU}},
	{"GDS_MT", true, []string{fromFile, fromMemory, fromGPU}},
	{"POSIX", true, []string{fromFile, fromMemory}},
	{"HF3FS", true, []string{fromFile, fromMemory}},
	{"OBJ", true, nil},
	{"LIBFABRIC", false, []string{fromMemory, fromGPU}},
	{"GUSLI", true, []string{fromFile, fromMemory}},
	{"AZURE_BLOB", true, nil},
	{"INFINIA", true, nil},
}

func backendNames() []string {
	var names []string
	for _, b := range backends {
		names = append(names, b.name)
	}
	return names
}

// routed is the meaning of source, destination and backend together.
type routed struct {
	bench    Bench  // with segment types and operation set
	storage  bool   // one side is a file
	local    string // memory of the side that is none, for perigee
	warnings []string
}

// known is the backend that a benchmark names.
func (b Bench) known() (backend, error) {
	i := slices.IndexFunc(backends, func(x backend) bool { return strings.EqualFold(x.name, b.Backend) })
	if i < 0 {
		return backend{}, usage("--backend: wanted one of %s, got %q%s", strings.Join(backendNames(), ", "), b.Backend,
			value.Suggestion(b.Backend, backendNames()))
	}
	return backends[i], nil
}

// route decides the operation and the segment types by the backend and by where
// the cache comes from and goes to, as the original does.
func route(b Bench) (routed, error) {
	known, err := b.known()
	if err != nil {
		return routed{}, err
	}
	given := b
	b.Backend = known.name
	r := routed{bench: b, storage: known.storage}
	switch {
	case !known.storage:
		err = r.network(given, known.sources)
	case known.sources == nil:
		err = r.object(given)
	default:
		err = r.file(given, known.sources)
	}
	if err != nil {
		return routed{}, err
	}
	r.warnOverruled(given)
	if known.name == "POSIX" && b.PosixAPIType == "POSIXAIO" {
		r.warnings = append(r.warnings, "--posix_api_type POSIXAIO: older versions of nixlbench know AIO and URING only")
	}
	if known.name == "UCX_MO" {
		r.warnings = append(r.warnings, "newer versions of nixlbench have no backend UCX_MO")
	}
	return r, nil
}

func segment(kind string) string {
	if kind == fromGPU {
		return vram
	}
	return dram
}

// network moves memory to memory.
func (r *routed) network(given Bench, kinds []string) error {
	source, destination := cli.Given(given.Source, fromMemory), cli.Given(given.Destination, fromMemory)
	for _, x := range []struct{ flag, kind string }{{"source", source}, {"destination", destination}} {
		if !slices.Contains(kinds, x.kind) {
			return usage("--%s %s: %s moves memory, wanted %s", x.flag, x.kind, r.bench.Backend,
				strings.Join(kinds, " or ")).
				WithHint("files need a storage backend, such as --backend POSIX, GDS or OBJ")
		}
	}
	if given.Source != nil || given.InitiatorSegType == nil {
		r.set(&r.bench.InitiatorSegType, segment(source))
	}
	if given.Destination != nil || given.TargetSegType == nil {
		r.set(&r.bench.TargetSegType, segment(destination))
	}
	r.local = *r.bench.InitiatorSegType
	return nil
}

// file moves between a file and memory. As in the original, GDS names its
// target VRAM unless the source is host memory.
func (r *routed) file(given Bench, kinds []string) error {
	source, destination := cli.Given(given.Source, fromFile), cli.Given(given.Destination, fromMemory)
	if !slices.Contains(kinds, source) {
		return usage("--source %s: %s cannot, wanted %s", source, r.bench.Backend, strings.Join(kinds, " or "))
	}
	gds := slices.Contains(kinds, fromGPU)
	switch source {
	case fromFile:
		if given.Destination != nil && (destination == fromFile || !slices.Contains(kinds, destination)) {
			return usage("--destination %s: %s reads a file into memory", destination, r.bench.Backend)
		}
		r.set(&r.bench.OpType, opRead)
		r.local = segment(destination)
	case fromMemory:
		r.set(&r.bench.OpType, opWrite)
		r.set(&r.bench.InitiatorSegType, dram)
		r.local = dram
	case fromGPU:
		r.set(&r.bench.OpType, opWrite)
		r.local = vram
	}
	if gds && source != fromMemory {
		r.set(&r.bench.TargetSegType, vram)
	} else {
		r.set(&r.bench.TargetSegType, dram)
	}
	if given.Destination != nil && source != fromFile && destination != fromFile {
		r.warnings = append(r.warnings, "--destination "+destination+
			" has no effect: with --source "+source+" the bytes go to a file")
	}
	if given.InitiatorSegType != nil && source != fromMemory {
		r.warnSegment(given, source)
		r.local = *given.InitiatorSegType
	} else if r.local == vram {
		r.warnings = append(r.warnings, "nixlbench takes its local memory from --initiator_seg_type, which the original plan leaves at DRAM; add --initiator_seg_type VRAM to measure the GPU's")
	}
	return nil
}

// warnSegment warns where the type of a segment contradicts the memory that is asked for.
func (r *routed) warnSegment(given Bench, source string) {
	flag, side := "source", source
	if source == fromFile {
		flag, side = "destination", cli.Given(given.Destination, "")
	}
	if side != "" && segment(side) != *given.InitiatorSegType {
		r.warnings = append(r.warnings, "--"+flag+" "+side+" has no effect: --initiator_seg_type "+
			*given.InitiatorSegType+" says what memory is used")
	}
}

// object moves between an object store and memory. One side must be memory;
// which, decide the options that are given.
func (r *routed) object(given Bench) error {
	local := func(p *string) bool { return p != nil && *p != fromFile }
	read := !local(given.Source)
	side := cli.Given(given.Destination, fromMemory)
	if !read {
		side = *given.Source
	}
	switch {
	case !read && local(given.Destination):
		return usage("--source %s --destination %s: one side of %s is the object store", *given.Source,
			*given.Destination, r.bench.Backend).
			WithHint("leave out one of them, or call it file")
	case read && side == fromFile:
		return usage("--destination file: %s reads objects into memory, wanted memory or gpu", r.bench.Backend).
			WithHint("to write objects: --source memory or gpu")
	}
	op := opWrite
	if read {
		op = opRead
	}
	r.set(&r.bench.OpType, op)
	r.set(&r.bench.InitiatorSegType, segment(side))
	r.local = segment(side)
	return nil
}

func (r *routed) set(p **string, value string) { *p = new(value) }

// warnOverruled warns of options that the route has decided otherwise.
func (r *routed) warnOverruled(given Bench) {
	for _, x := range []struct {
		flag      string
		given, is *string
	}{
		{"op_type", given.OpType, r.bench.OpType},
		{"initiator_seg_type", given.InitiatorSegType, r.bench.InitiatorSegType},
		{"target_seg_type", given.TargetSegType, r.bench.TargetSegType},
	} {
		if x.given != nil && x.is != nil && *x.given != *x.is {
			r.warnings = append(r.warnings, "--"+x.flag+" "+*x.given+" has no effect: --backend "+r.bench.Backend+" with this source and destination makes it "+*x.is)
		}
	}
}
