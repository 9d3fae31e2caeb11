package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/serving/config"
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

// ReadEffective returns the configuration that lies in the result folder of a job.
func ReadEffective(dir string) ([]byte, error) {
	return file.Read(filepath.Join(dir, Effective), conf.MaxBytes)
}

// files holds the files that the script reads, by name.
func (d *Data) files() (files map[string]string, err error) {
	files = map[string]string{}
	if files[Effective], err = EffectiveText(d.Config); err != nil {
		return nil, err
	}
	if d.UsesCommand() {
		j := d.Job
		for name, commands := range map[string]string{"setup": j.Setup, "server": j.Server, "ready": j.Ready,
			"client": j.Client, "command": j.Command, "evaluate": j.Evaluate} {
			if commands != "" {
				files[name+".sh"] = "#!/bin/bash\n" + strings.TrimRight(commands, "\n") + "\n"
			}
		}
		return files, nil
	}
	sections := map[string]*conf.Value{"gen_config.yaml": d.Gen.Section, "ctx_config.yaml": d.Ctx.Section}
	for name, section := range sections {
		text, err := section.YAML()
		if err != nil {
			return nil, err
		}
		files[name] = string(text)
	}
	allocations, err := json.MarshalIndent(d.Workers, "", "  ")
	files["allocations.json"] = string(allocations) + "\n"
	files["server_config_base.yaml"] = d.serverConfig()
	return files, err
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
