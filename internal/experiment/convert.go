package experiment

import (
	"perigee/internal/result"
	"perigee/nixl"
	"perigee/spmd"
	"perigee/spmd/boot/watch"
)

// WorldOf describes a world in a result.
func WorldOf(w *spmd.World) result.World {
	r := result.World{Size: w.Size(), Launcher: w.Launcher(), Clocks: ClocksOf(w)}
	for _, h := range w.Hosts() {
		r.Hosts = append(r.Hosts, result.Host{Name: h.Name, Ranks: h.Ranks, CPUs: h.CPUs, CPUQuota: h.Quota,
			Machine: h.Machine})
	}
	return r
}

// ClocksOf describes the clocks of a world's hosts as they are known now.
func ClocksOf(w *spmd.World) (list []result.Clock) {
	for _, c := range w.Clocks() {
		list = append(list, result.Clock(c))
	}
	return list
}

// FailureOf describes why a run has failed; nil if it has not.
func FailureOf(err error) *result.Failure {
	if err == nil {
		return nil
	}
	f := watch.FailureOf(err)
	return &result.Failure{Rank: f.Rank, Host: f.Host, Phase: f.Phase, Kind: f.Kind, Cause: f.Cause, Hint: f.Hint}
}

// EngineOf describes an engine in a result.
func EngineOf(info nixl.Info) *result.Engine {
	return &result.Engine{Name: info.Name, Version: info.Version, Backend: info.Backend, Library: info.Library,
		Params: info.Params}
}
