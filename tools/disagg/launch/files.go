package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/tools/disagg/config"
)

// Effective is the name of the config in the result folder, as the job runs it.
const Effective = "effective.yaml"

// JobInfo is the file in which the script of a job notes its id as it begins.
const JobInfo = "job_info.txt"

// EffectiveText is a configuration as it stands in the result folder.
func EffectiveText(c *config.Config) (string, error) {
	tree, err := c.Tree.With([]string{"metadata", "id"}, c.Ident.Display())
	if err != nil {
		return "", err
	}
	text, err := tree.YAML()
	return string(text), err
}

// files adds what the script reads.
func (d *Data) files(p *Plan) (err error) {
	if p.Files[Effective], err = EffectiveText(d.Config); err != nil {
		return err
	}
	if d.UsesCommand() {
		for name, commands := range map[string]string{"setup": d.Job.Setup, "server": d.Job.Server,
			"ready":  d.Job.Ready,
			"client": d.Job.Client, "command": d.Job.Command, "evaluate": d.Job.Evaluate} {
			if commands != "" {
				p.Files[name+".sh"] = "#!/bin/bash\n" + strings.TrimRight(commands, "\n") + "\n"
			}
		}
		return nil
	}
	for name, section := range map[string]*conf.Value{"gen_config.yaml": d.Gen.Section,
		"ctx_config.yaml": d.Ctx.Section} {
		text, err := section.YAML()
		if err != nil {
			return err
		}
		p.Files[name] = string(text)
	}
	allocations, err := json.MarshalIndent(d.Workers, "", "  ")
	if err != nil {
		return err
	}
	p.Files["allocations.json"] = string(allocations) + "\n"
	p.Files["server_config_base.yaml"] = d.serverConfig()
	return nil
}

// serverConfig is the front end's file, with placeholders for the hosts.
func (d *Data) serverConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hostname: %s\nport: %d\nbackend: pytorch\n", placeholder(d.Front.Node), d.Front.Port)
	for _, role := range []struct{ key, name string }{{"context_servers", "CTX"}, {"generation_servers", "GEN"}} {
		var urls []string
		for _, w := range d.Workers {
			if w.Role == role.name && !(w.Role == "CTX" && d.Benchmark.Mode == "gen_only_no_context") {
				urls = append(urls, fmt.Sprintf("    - %s:%d\n", placeholder(w.Hosts[0].Node), w.Port))
			}
		}
		fmt.Fprintf(&b, "%s:\n  num_instances: %d\n  urls:\n%s", role.key, len(urls), strings.Join(urls, ""))
	}
	return b.String()
}

// Write makes the result folder with the files of the plan. A folder that is
// there already is set aside under another name, unless it is empty. The files
// are for this user alone: variables and commands in them may hold secrets.
func (p *Plan) Write() error {
	dir := filepath.Dir(p.Script)
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	_, err := file.WriteDir(context.Background(), dir, file.SetAside, func(d *file.Dir) error {
		for name, text := range p.Files {
			if err := d.Write(name, 0o600, writeText(text)); err != nil {
				return err
			}
		}
		return d.Write(filepath.Base(p.Script), 0o700, writeText(p.Text))
	})
	return err
}

func writeText(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}
