package report

import (
	"os"

	"perigee/internal/kit/fault"
	"perigee/internal/serving/benchlog"
)

// otherDoor is the error of a path that holds no result of perigee: it names the command that reads what is there.
func otherDoor(path string, err error) error {
	if info, failed := os.Stat(path); failed == nil && info.IsDir() {
		return fault.New(fault.Input, "%s: wanted a result of perigee, got a folder", path).
			WithHint("perigee sweep report %s makes a page of what clients of serving benchmarks and llm-d have written there, "+
				"perigee disagg report of an output folder of disagg; of results name the files", path)
	}
	file, failed := os.Open(path)
	if failed != nil {
		return err
	}
	defer file.Close()
	if log, failed := benchlog.Read(file); failed == nil && len(log.Levels) > 0 && log.Levels[0].Client != "" {
		return fault.New(fault.Input, "%s: wanted a result of perigee, got one of %s", path, log.Levels[0].Client).
			WithHint("perigee sweep report %s makes a page of it, perigee disagg parse %s a table", path, path)
	}
	return err
}
