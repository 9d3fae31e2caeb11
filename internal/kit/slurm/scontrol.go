package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Record is one object as scontrol --oneliner prints it: fields separated by
// blanks, each of the form Name=value. A value that itself contains a blank, as
// Comment and Reason may, is cut at the first one.
type Record map[string]string

// ParseRecord reads one line of scontrol --oneliner. Words without an equals
// sign belong to such values and are ignored. Of two fields with one name the
// first counts, since Slurm prints free text last.
func ParseRecord(line string) Record {
	r := Record{}
	for word := range strings.FieldsSeq(line) {
		name, value, ok := strings.Cut(word, "=")
		if _, known := r[name]; ok && name != "" && !known {
			r[name] = value
		}
	}
	return r
}

// NodeAddress asks scontrol for the NodeAddr of a node, which may be a name that
// other hosts resolve, or an address.
func NodeAddress(ctx context.Context, node string) (string, error) {
	out, err := Scontrol(ctx, "show", "node", node)
	if err != nil {
		return "", err
	}
	address := ParseRecord(out)["NodeAddr"]
	if address == "" {
		return "", fmt.Errorf("scontrol show node %s names no NodeAddr", node)
	}
	return address, nil
}

// Scontrol runs scontrol --oneliner with these arguments and returns what it prints. The
// error includes the first line that scontrol wrote to its standard error.
func Scontrol(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "scontrol", append([]string{"--oneliner"}, args...)...).Output()
	if err == nil {
		return string(out), nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		line, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		return "", fmt.Errorf("scontrol %s: %w: %s", strings.Join(args, " "), err, line)
	}
	return "", fmt.Errorf("scontrol %s: %w", strings.Join(args, " "), err)
}
