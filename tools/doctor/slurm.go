package doctor

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/slurm"
	"perigee/spmd/boot"
	"perigee/spmd/boot/pmix"
)

// munge looks for what lets ranks under plain Slurm trust each other.
func munge(m machine) []Finding {
	socket, from := boot.MungeSocket(m.env)
	found := socket
	if socket == "" {
		socket = filepath.Join(m.root, "run/munge/munge.socket.2")
		found = socket
	} else {
		found += " (" + from + ")"
	}
	if _, err := os.Stat(socket); err != nil {
		return one(Finding{What: "munge", Verdict: Missing, Found: "no daemon: there is no " + found,
			Remedy: "only plain Slurm (srun --mpi=none) needs it; there set " + boot.EnvSecret + " or use --mpi=pmix"})
	}
	return one(Finding{What: "munge", Verdict: Good, Found: found})
}

// pmixLibraries looks for what mpirun and srun --mpi=pmix need on each node: the library that
// perigee loads, and where Slurm is installed its plugin, and the library that the
// plugin opens.
func pmixLibraries(m machine) []Finding {
	own, _ := m.env(boot.EnvPMIxLibrary)
	own = cmp.Or(own, pmix.Library)
	f := Finding{What: "PMIx", Verdict: Good, Found: own + " can be loaded"}
	if err := m.loads(own); err != nil {
		return one(Finding{What: "PMIx", Verdict: Missing, Found: err.Error(),
			Remedy: "only mpirun and srun --mpi=pmix need it: install libpmix2 (Debian) or pmix (RPM), or name the library in " + boot.EnvPMIxLibrary})
	}
	if !hasSlurm(m) {
		return one(f)
	}
	plugins := pmixPlugins(m)
	if len(plugins) == 0 {
		f.Verdict, f.Found = Missing, f.Found+"; Slurm has no plugin mpi_pmix.so"
		f.Remedy = "srun --mpi=pmix does not work here: install Slurm's plugin for PMIx, or use srun --mpi=pmi2"
		return one(f)
	}
	wanted := openedBy(plugins[0])
	f.Found += "; Slurm's plugin opens " + wanted
	if err := m.loads(wanted); err != nil {
		f.Verdict, f.Found = Poor, f.Found+", which is not there"
		f.Remedy = "srun --mpi=pmix fails on this node: install what has " + wanted +
			" (Debian: libpmix-dev, RPM: pmix-devel), or use srun --mpi=pmi2"
	}
	return one(f)
}

func hasSlurm(m machine) bool {
	for _, program := range []string{"usr/sbin/slurmd", "usr/bin/srun", "usr/local/sbin/slurmd", "usr/local/bin/srun",
		"opt/slurm/bin/srun"} {
		if _, err := os.Stat(filepath.Join(m.root, program)); err == nil {
			return true
		}
	}
	return false
}

// pmixPlugins returns Slurm's plugins for PMIx: from PluginDir of slurm.conf, or where
// packages put them.
func pmixPlugins(m machine) []string {
	patterns := []string{"usr/lib/*/slurm*", "usr/lib64/slurm", "usr/lib/slurm", "usr/local/lib/slurm",
		"opt/slurm/lib/slurm"}
	for i, p := range patterns {
		patterns[i] = filepath.Join(m.root, p)
	}
	if conf, err := slurm.ReadConfig(m.env); err == nil && conf["plugindir"] != "" {
		patterns = slices.Insert(patterns, 0, strings.Split(conf["plugindir"], ":")...)
	}
	var all []string
	for _, p := range patterns {
		found, _ := filepath.Glob(filepath.Join(p, "mpi_pmix*.so")) // a bad pattern finds nothing
		all = append(all, found...)
	}
	return all
}

// openedBy returns the name of the library that a plugin opens: libpmix.so in Slurm up to
// 22.05, whose plugin looks for the name that only the files for developers have, and
// libpmix.so.2 in later ones.
func openedBy(plugin string) string {
	data, err := os.ReadFile(plugin)
	if err == nil && !bytes.Contains(data, []byte("libpmix.so.2\x00")) {
		return "libpmix.so"
	}
	return pmix.Library
}
