package run

import (
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/version"
	"perigee/spmd/boot"
)

// openLog begins the log of this process, and logs what has started it. Beside an
// error comes a silent log.
func openLog(env boot.Environ, streams cli.Streams) (*jobLog, error) {
	o, started, err := boot.OriginOf(env)
	if err != nil {
		return silentLog(), err
	}
	if !started {
		o.Launcher = "local"
	}
	l, err := startLog(logChoiceFrom(env), logWriter{Rank: o.Rank, Host: o.Host, Launcher: o.Launcher}, streams.Err)
	l.Info("perigee starts", "version", version.Get().Version, "launcher", o.Launcher, "variables", o.Variables)
	return l, err
}

// logEnd logs how a process ends.
func logEnd(l *jobLog, what string, err error) {
	if err == nil {
		l.Info(what, "code", 0)
		return
	}
	l.Error(what, "code", int(fault.KindOf(err)), "failure", err)
}
