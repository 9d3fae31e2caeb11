package main

import (
	"os"
	"strings"

	"perigee/internal/kit/version"
)

// program names this perigee.
func program() string {
	v := version.Get()
	return strings.TrimSpace("perigee " + v.Version + " " + v.Commit)
}

// kernel is the release of the machine's kernel.
func kernel() string { return firstWords("/proc/sys/kernel/osrelease", 1) }

// load is how many processes wanted the cores, on average over the last 1, 5 and 15 minutes.
func load() string { return "load " + firstWords("/proc/loadavg", 3) }

func firstWords(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(text))
	return strings.Join(words[:min(n, len(words))], " ")
}
