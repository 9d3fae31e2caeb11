package ep

import (
	"os"
	"strconv"
	"strings"

	"perigee/internal/fault"
)

// Scenario returns the scenario that a command of `perigee ep` plays and its arguments, or ok false if the words name
// no such command.
//
// The flags of the original tests work as they do there: --timeout takes seconds without a unit, and
// --nvlink-backend none keeps UCX from shared memory.
func Scenario(words []string) (name string, args []string, ok bool) {
	if len(words) < 2 || words[0] != "ep" {
		return "", nil, false
	}
	name, ok = played[words[1]]
	if !ok {
		return "", nil, false
	}
	return name, withUnits(words[2:]), true
}

// played are the scenarios of commands.
var played = map[string]string{"data-plane": "ep_data_plane", "control-plane": "ep_control_plane",
	"elastic": "ep_elastic"}

// withUnits gives a --timeout without a unit the unit of the original.
func withUnits(args []string) []string {
	list := append([]string(nil), args...)
	for i, arg := range list {
		if arg == "--" {
			break
		}
		if value, found := strings.CutPrefix(arg, "--timeout="); found && isNumber(value) {
			list[i] = arg + "s"
		}
		if i > 0 && list[i-1] == "--timeout" && isNumber(arg) {
			list[i] = arg + "s"
		}
	}
	return list
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// Prepare sets up the environment, which the library reads and ranks that are started here inherit: what UCX may use,
// and without the variables of NodesOf where there is one node, since a launcher's are called the same.
func Prepare(args []string) error {
	if !isRank(os.Getenv) {
		for _, variable := range []string{"WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"} {
			os.Unsetenv(variable)
		}
	}
	if value(args, "--nvlink-backend") != "none" {
		return nil
	}
	if value(args, "--engine") == "shm" {
		return fault.New(fault.Usage, "--nvlink-backend none forbids shared memory, and --engine shm is nothing else").
			WithHint("--engine nixl")
	}
	const variable = "UCX_TLS"
	if os.Getenv(variable) != "" {
		return nil // the user has chosen
	}
	return os.Setenv(variable, "^sm")
}

// value finds a flag's value, "" if it is not given.
func value(args []string, flag string) string {
	for i, arg := range args {
		arg = strings.ReplaceAll(arg, "_", "-")
		if v, found := strings.CutPrefix(arg, flag+"="); found {
			return v
		}
		if arg == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}
