package slurm

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// EnvConf is the variable that names slurm.conf where it is not in its usual place.
const EnvConf = "SLURM_CONF"

// confPlaces are where slurm.conf is usually found: as packages install it, and as
// slurmd keeps it where it gets it from slurmctld ("configless").
var confPlaces = []string{
	"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf",
}

// Config holds the parameters of slurm.conf that are single values, by names in lower
// case. Lines that describe nodes, partitions and the like are not in it.
type Config map[string]string

// ReadConfig reads the slurm.conf that env names, or that is in one of the usual
// places, with the files that it includes. The error is os.ErrNotExist if there is none.
func ReadConfig(env func(key string) (string, bool)) (Config, error) {
	places := confPlaces
	if path, _ := env(EnvConf); path != "" {
		places = []string{path}
	}
	for _, path := range places {
		c := Config{}
		err := c.read(path, 0)
		if err == nil || !os.IsNotExist(err) {
			return c, err
		}
	}
	return nil, fmt.Errorf("slurm.conf: %w in %s", os.ErrNotExist, strings.Join(places, ", "))
}

// AuthSocket returns the socket of munged that AuthInfo names, "" if it names none.
func (c Config) AuthSocket() string {
	for part := range strings.SplitSeq(c["authinfo"], ",") {
		key, value, _ := strings.Cut(part, "=")
		if strings.EqualFold(strings.TrimSpace(key), "socket") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

const (
	maxIncludes = 8       // files within each other
	maxLine     = 4 << 20 // bytes
)

// read adds the parameters of a file and of those that it includes; what comes later replaces what was there.
func (c Config) read(path string, depth int) error {
	if depth > maxIncludes {
		return fmt.Errorf("%s: more than %d files include each other", path, maxIncludes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	includes, err := c.parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range includes {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		if err := c.read(name, depth+1); err != nil {
			return fmt.Errorf("included by %s: %w", path, err)
		}
	}
	return nil
}

// listKeys begin lines that describe one of many objects.
var listKeys = map[string]bool{"nodename": true, "partitionname": true, "downnodes": true, "frontendname": true,
	"nodeset": true, "switchname": true}

// parse reads one file and returns the names of those that it includes. A number sign
// begins a comment, a backslash at the end of a line continues it.
func (c Config) parse(r io.Reader) (includes []string, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		for strings.HasSuffix(line, `\`) && lines.Scan() {
			line = strings.TrimSuffix(line, `\`) + lines.Text()
		}
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if first, rest, _ := strings.Cut(line, " "); strings.EqualFold(first, "include") {
			includes = append(includes, strings.TrimSpace(rest))
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if !ok || key == "" || listKeys[key] {
			continue
		}
		c[key] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	return includes, lines.Err()
}
