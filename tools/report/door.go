package report

import (
	"io"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/result"
	"perigee/internal/serving/given"
	"perigee/tools/disagg"
	"perigee/tools/sweep"
	"perigee/tools/trace"
)

// results are the files of results that paths stand for. A folder that holds nothing to report on is an error.
func results(paths []string) (list []string, err error) {
	for _, path := range paths {
		files, err := result.In(path)
		if err != nil {
			return nil, fault.New(fault.Input, "%s: the folder holds no results, serving benchmarks or figures of disagg", path)
		}
		list = append(list, files...)
	}
	return list, nil
}

// command is one that reports on what is no result of perigee.
type command interface{ Run(cli.Streams) error }

// other reports on what is no result of perigee: it is the command for that, with the same words.
func (c *Cmd) other(kind given.Kind, s cli.Streams) error {
	err := kind.Refuse(c.Results[0], given.Useless("--pool", c.Pool), given.Useless("--full", c.Full),
		given.Useless("--slo", len(c.SLO) > 0 && kind != given.Serving),
		given.Useless("--title", c.Title != "" && kind == given.Trace))
	if err != nil {
		return err
	}
	page := c.Format == "page"
	words := []string{"--format=" + c.Format}
	if page {
		words = []string{"--output=" + c.Output}
	}
	if c.Title != "" {
		words = append(words, "--title="+c.Title)
	}
	for _, slo := range c.SLO {
		words = append(words, "--slo="+slo)
	}
	run := map[given.Kind]command{
		given.Serving: &sweep.ReportCmd{}, given.Disagg: &disagg.ReportCmd{}, given.Trace: &trace.ShowCmd{},
	}[kind]
	if err := cli.Into(run, append(append(words, "--"), c.Results...)...); err != nil {
		return err
	}
	if page || c.Output == "-" {
		return run.Run(s)
	}
	return file.Write(c.Output, func(w io.Writer) error {
		s.Out = w
		return run.Run(s)
	})
}
