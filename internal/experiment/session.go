package experiment

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/nixl/capi"
	"perigee/nixl/device"
	"perigee/nixl/engines"
	"perigee/spmd"
)

// Session returns this rank's session, whose engine is opened by the first call. All ranks make that call. The
// header and the result say what moves the bytes.
func (e *Experiment) Session() (*session.Session, error) {
	if e.session != nil {
		return e.session, nil
	}
	open := e.Open
	if open == nil {
		open = e.OpenEngine
	}
	engine, note, err := open()
	if err != nil {
		return nil, err
	}
	gpu := 0
	if engine.Info().Name != "shm" { // to ask CUDA takes half a second where there are GPUs
		gpu, _ = e.GPUOf()
	}
	if engine.Info().Name == "nixl" {
		e.tally.closing = capi.TelemetryOf(os.Getenv).Flush
	}
	s, err := session.Open(e.World, e.tally.counting(engine), nixl.AgentConfig{GPU: gpu, Progress: "auto"}, e.Seed)
	if err != nil {
		return nil, err
	}
	e.session, e.engine = s, engine
	e.announce(s.Info(), note)
	return s, nil
}

// Opened is the session if there is one, else nil.
func (e *Experiment) Opened() *session.Session { return e.session }

// Engine moves the bytes of the session, and counts them for it; nil before there is one.
func (e *Experiment) Engine() nixl.Engine {
	if e.engine == nil {
		return nil
	}
	return e.tally.counting(e.engine)
}

// Close closes the session.
func (e *Experiment) Close() error {
	if e.session == nil {
		return nil
	}
	return e.session.Close()
}

// announce puts the engine into the header and the result.
func (e *Experiment) announce(info nixl.Info, note string) {
	if e.Doc == nil {
		return
	}
	e.Doc.Engine = EngineOf(info)
	line := fmt.Sprintf("# engine: %s %s, backend %s", info.Name, info.Version, info.Backend)
	for _, k := range slices.Sorted(maps.Keys(info.Params)) {
		value := info.Params[k]
		if strings.ContainsAny(value, "\r\n") { // a parameter of a backend may be a whole file
			value = strconv.Quote(value)
		}
		line += fmt.Sprintf(", %s %s", k, value)
	}
	fmt.Fprintln(e.Out, line)
	if note != "" {
		e.Note(note)
	}
}

// Note prints a remark or a warning for the user and adds it to the result, at rank 0.
func (e *Experiment) Note(text string) {
	if e.Doc == nil {
		return
	}
	e.Doc.Notes = append(e.Doc.Notes, text)
	if !strings.HasPrefix(text, engines.Warning) {
		text = "note: " + text
	}
	io.WriteString(e.Out, Comment(text))
}

// DescribeWorkload puts what is played into the header and the result, at rank 0, in the words of
// [result.Document.DescribeWorkload].
func (e *Experiment) DescribeWorkload(generator map[string]any) {
	if e.Doc == nil {
		return
	}
	if e.Doc.Workload = e.Doc.DescribeWorkload(generator); e.Doc.Workload != "" {
		io.WriteString(e.Out, Comment("workload: "+e.Doc.Workload))
	}
}

// Comment makes lines that begin with # of a text.
func Comment(text string) string { return "# " + strings.ReplaceAll(text, "\n", "\n# ") + "\n" }

// GPUOf reports whether this rank has a GPU, and which: the ranks of a host take in turn those that each may use.
func (e *Experiment) GPUOf() (ordinal int, ok bool) {
	ordinal, uuid := e.gpu()
	return ordinal, uuid != ""
}

// gpu is the CUDA ordinal and the UUID of this rank's GPU; no UUID means that it has none.
func (e *Experiment) gpu() (ordinal int, uuid string) {
	list := device.Visible
	if e.GPUs != nil {
		list = e.GPUs
	}
	gpus, err := list()
	if err != nil {
		e.World.Log().Warn("no GPU can be used", "reason", err)
	}
	if len(gpus) == 0 {
		return 0, ""
	}
	ordinal = e.World.LocalRank() % len(gpus)
	return ordinal, gpus[ordinal]
}

// NoteGPUs adds a note, once, on how GPU memory is reached, and on ranks that share a GPU. All ranks call it when a
// transfer has been prepared that uses such memory.
func (e *Experiment) NoteGPUs() error {
	if e.notedGPUs {
		return nil
	}
	e.notedGPUs = true
	_, mine := e.gpu()
	all, err := spmd.AllGatherValue(e.World.All(), mine)
	if err != nil {
		return err
	}
	if e.World.OneHost() {
		e.Note("GPU memory: a progress thread runs at each rank")
	}
	for _, text := range shared(all, e.World.Hosts()) {
		e.Note(text)
	}
	return nil
}

// DefaultMem is the kind of memory to use where none is given: VRAM if every rank has a GPU and the engine serves
// it, else DRAM. All ranks call it. The first call adds a note with the reason.
func (e *Experiment) DefaultMem() (nixl.Mem, error) {
	if e.defaultMem != nil {
		return *e.defaultMem, nil
	}
	s, err := e.Session()
	if err != nil {
		return 0, err
	}
	mem, why := nixl.DRAM, "the shm engine serves host memory only"
	if s.Info().Name != "shm" {
		var mine int64
		if _, has := e.GPUOf(); has {
			mine = 1
		}
		with, err := spmd.AllReduce(e.World.All(), []int64{mine}, spmd.Sum)
		if err != nil {
			return 0, err
		}
		why = fmt.Sprintf("%d of %d ranks have a GPU", with[0], e.World.Size())
		if int(with[0]) == e.World.Size() {
			mem = nixl.VRAM
		}
	}
	e.Note(fmt.Sprintf("memory type not given, using %s: %s", mem, why))
	e.defaultMem = &mem
	return mem, nil
}
