package nixltest

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// call is the name of an operation of a server.
type call string

// The calls. All but open and openFiles need an agent.
const (
	callOpen      call = "open"
	callAlloc     call = "alloc"
	callCard      call = "card"
	callAddPeer   call = "add peer"
	callConnect   call = "connect"
	callConnected call = "connected" // makes progress as well
	callStore     call = "store"
	callLoad      call = "load"
	callBatch     call = "batch"
	callRun       call = "run"
	callPost      call = "post"
	callDone      call = "done"
	callWait      call = "wait"
	callRelease   call = "release"

	callDisconnect  call = "disconnect"
	callNotify      call = "notify"
	callReceive     call = "receive"
	callList        call = "prepare list"
	callReleaseList call = "release list"
	callPick        call = "pick"
	callLives       call = "lives"
	callClose       call = "close"
	callOpenFiles   call = "open files"
)

// request is one call with its arguments.
type request struct {
	Call      call
	Config    nixl.AgentConfig
	Mem       nixl.Mem
	Size      int64
	Number    int // of a peer, a buffer or a batch
	Peers     []int
	Data      []byte
	Transfers []nixl.Transfer
	Descs     []nixl.Desc
	Picks     []pick
	Runs      int
	Stamps    bool
	Within    time.Duration // deadline, counted from the call; 0 means none
	Aborted   bool          // the abort flag is set from the start
}

// pick is a nixl.Pick with the numbers of lists.
type pick struct {
	Op                      nixl.Op
	Local, Remote           int
	LocalIndex, RemoteIndex []int32
	Notice                  []byte
}

// response holds the return values of a call.
type response struct {
	Number       int
	Flag         bool
	Data         []byte
	Times        []nixl.Times
	Notices      []nixl.Notice
	Error        string
	Kind         fault.Kind
	Aborted      bool
	TimedOut     bool
	TimeoutPeers []int
}

// err rebuilds the error of the other process.
func (r response) err() error {
	switch {
	case r.TimedOut:
		return &nixl.TimeoutError{Peers: r.TimeoutPeers}
	case r.Aborted:
		return nixl.ErrAborted
	case r.Error != "":
		return fault.New(r.Kind, "%s", r.Error)
	}
	return nil
}

// server holds one agent and executes requests on it.
type server struct {
	open    func() (nixl.Engine, error)
	agent   nixl.Agent
	buffers []nixl.Buffer
	batches []nixl.Batch
	lists   []nixl.List
	abort   uint32
}

// do executes a request; it may be called by one goroutine at a time.
func (s *server) do(q request) response {
	r, err := s.dispatch(q)
	if err == nil {
		return r
	}
	r.Error, r.Kind = err.Error(), fault.KindOf(err)
	r.Aborted = errors.Is(err, nixl.ErrAborted)
	if late, ok := errors.AsType[*nixl.TimeoutError](err); ok {
		r.TimedOut, r.TimeoutPeers = true, late.Peers
	}
	return r
}

// dispatch carries out a request on this server's agent.
func (s *server) dispatch(q request) (response, error) {
	switch q.Call {
	case callOpen:
		return response{}, s.newAgent(q.Config)
	case callOpenFiles:
		files, err := os.ReadDir("/proc/self/fd")
		return response{Number: len(files)}, err
	case callAlloc:
		b, err := s.agent.Alloc(q.Mem, q.Size)
		if err != nil {
			return response{}, err
		}
		s.buffers = append(s.buffers, b)
		return response{Number: b.ID()}, nil
	case callCard:
		card, err := s.agent.Card()
		return response{Data: card}, err
	case callAddPeer:
		return response{}, s.agent.AddPeer(q.Number, q.Data)
	case callConnect:
		return response{}, s.agent.Connect(q.Peers)
	case callConnected:
		if err := s.agent.Progress(); err != nil {
			return response{}, err
		}
		ok, err := s.agent.Connected()
		return response{Flag: ok}, err
	case callStore:
		n, err := s.buffers[q.Number].WriteAt(q.Data, 0)
		return response{Number: n}, err
	case callLoad:
		data := make([]byte, s.buffers[q.Number].Size())
		n, err := s.buffers[q.Number].ReadAt(data, 0)
		return response{Number: n, Data: data}, err
	case callClose:
		return response{}, s.agent.Close()
	case callLives:
		return s.lives(q)
	}
	return s.dispatchPeers(q)
}

// dispatchPeers carries out requests about peers, notices and lists.
func (s *server) dispatchPeers(q request) (response, error) {
	switch q.Call {
	case callDisconnect:
		return response{}, s.agent.Disconnect(q.Peers)
	case callNotify:
		return response{}, s.agent.Notify(q.Number, q.Data)
	case callReceive:
		notices, err := s.agent.Receive(nil)
		return response{Notices: notices}, err
	case callList:
		l, err := s.agent.PrepareList(q.Number, int(q.Size), q.Descs)
		if err != nil {
			return response{}, err
		}
		s.lists = append(s.lists, l)
		return response{Number: len(s.lists) - 1}, nil
	case callReleaseList:
		return response{}, s.lists[q.Number].Release()
	case callPick:
		picks := make([]nixl.Pick, len(q.Picks))
		for i, p := range q.Picks {
			picks[i] = nixl.Pick{Op: p.Op, Local: s.lists[p.Local], Remote: s.lists[p.Remote],
				LocalIndex: p.LocalIndex, RemoteIndex: p.RemoteIndex, Notice: p.Notice}
		}
		b, err := s.agent.PickBatch(picks)
		if err != nil {
			return response{}, err
		}
		s.batches = append(s.batches, b)
		return response{Number: len(s.batches) - 1}, nil
	}
	return s.dispatchBatch(q)
}

func (s *server) newAgent(cfg nixl.AgentConfig) error {
	engine, err := s.open()
	if err != nil {
		return err
	}
	s.agent, err = engine.NewAgent(cfg)
	s.buffers, s.batches, s.lists = nil, nil, nil
	return err
}

// dispatchBatch carries out requests about batches.
func (s *server) dispatchBatch(q request) (response, error) {
	if q.Call == callBatch {
		b, err := s.agent.NewBatch(q.Transfers)
		if err != nil {
			return response{}, err
		}
		s.batches = append(s.batches, b)
		return response{Number: len(s.batches) - 1}, nil
	}
	b := s.batches[q.Number]
	switch q.Call {
	case callRun:
		var times []nixl.Times
		if q.Stamps {
			times = stamps(q.Runs, b.Len())
		}
		err := b.Run(s.control(q), q.Runs, times)
		return response{Times: times}, err
	case callPost:
		return response{}, b.Post()
	case callDone:
		ok, err := b.Done()
		return response{Flag: ok}, err
	case callWait:
		times := stamps(1, b.Len())
		err := b.Wait(s.control(q), &times[0])
		return response{Times: times}, err
	case callRelease:
		return response{}, b.Release()
	}
	return response{}, fmt.Errorf("nixltest: no call %q", q.Call)
}

func stamps(runs, transfers int) []nixl.Times {
	times := make([]nixl.Times, runs)
	for i := range times {
		times[i].Done = make([]int64, transfers)
	}
	return times
}

func (s *server) control(q request) nixl.Control {
	ctl := nixl.Control{Abort: &s.abort}
	atomic.StoreUint32(&s.abort, 0)
	if q.Aborted {
		atomic.StoreUint32(&s.abort, 1)
	}
	if q.Within != 0 {
		ctl.Deadline = clock.Now() + int64(q.Within)
	}
	return ctl
}
