package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// Endings are the signals at which a command ends by its own hand: SIGINT, SIGTERM and, unless its parent has had it
// ignore that, as nohup does, SIGHUP.
func Endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}
