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
	"perigee/nixl/engines"
	"perigee/spmd"
)

// Session returns this rank's session, whose engine is opened by the first call. All ranks make that call. The
// header and the result say what moves the bytes.
func (e *Experiment) Session() (*session.Session, error) {
	if e.session != nil {
		return e.session, nil
	}
	if err := e.place(); err != nil {
		return nil, err
	}
	open := e.Open
	if open == nil {
		open = e.OpenEngine
	}
	engine, note, err := open()
	if err != nil {
		return nil, err
	}
	gpu, has := 0, false
	if engine.Info().Can.GPU { // to ask CUDA takes half a second where there are GPUs
		gpu, has = e.GPUOf()
	}
	if engine.Info().Can.Counts {
		e.tally.closing = capi.TelemetryOf(os.Getenv).Flush
	}
	e.agent = nixl.AgentConfig{GPU: gpu, Progress: "auto"}
	s, err := session.Open(e.World, e.tally.counting(engine), e.agent, e.Seed)
	if err != nil {
		return nil, err
	}
	e.session, e.engine = s, engine
	s.Waits = e.Waits
	if h := e.World.Hosts()[e.World.HostOf(e.World.Rank())]; !s.Info().Can.Copies {
		s.Waits.Start(len(h.Ranks) / max(h.CPUs, 1))
	}
	e.announce(s.Info(), note, has)
	return s, e.pathKnown()
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
	e.Waits.Stop()
	return e.session.Close()
}

// announce puts the engine into the header and the result. Where there is a GPU, all buffers may lie in its memory, so
// that of the host is described when it is used.
func (e *Experiment) announce(info nixl.Info, note string, gpu bool) {
	if e.Doc == nil {
		return
	}
	info.Params = maps.Clone(info.Params)
	if gpu {
		e.hostPages = info.Params[hostPages]
		delete(info.Params, hostPages)
	}
	if strings.HasPrefix(info.Backend, "UCX") && e.Job.NICMap != "" {
		info.Params["nic_map"] = e.Job.NICMap
	}
	e.Doc.Engine = EngineOf(info)
	line := fmt.Sprintf("# engine: %s %s, backend %s", info.Name, info.Version, info.Backend)
	settings := e.Doc.EngineSettings()
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		value := settings[k]
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

// hostPages is the parameter of NIXL's engine that says in which pages buffers in host memory lie.
const hostPages = "dram"

// NoteHostMemory puts the pages of buffers in host memory into the header and the result, once, as the first such
// buffers are prepared.
func (e *Experiment) NoteHostMemory() {
	if e.hostPages == "" {
		return
	}
	e.Doc.Engine.Params[hostPages] = e.hostPages
	io.WriteString(e.Out, Comment("host memory: "+e.hostPages))
	e.hostPages = ""
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
	mem, why := nixl.DRAM, fmt.Sprintf("the %s engine serves host memory only", s.Info().Name)
	if s.Info().Can.GPU {
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
