package plan

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/serving/config"
)

//go:embed templates
var shipped embed.FS

// mostTemplate bounds the file of a job template, in bytes.
const mostTemplate = 1 << 20

// functions are those of job templates, besides the ones that all templates have.
var functions = template.FuncMap{
	"quote": cli.Quote,
	"join":  strings.Join,
	"words": func(args ...any) string { return strings.Trim(fmt.Sprint(args...), "[]") },
	"env": func(m map[string]string) (list []string) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			list = append(list, name+"="+m[name])
		}
		return list
	},
	"add": func(a, b int) int { return a + b },
	"mul": func(a, b int) int { return a * b },
}

// find returns the name and text of the template of a case.
func find(c *config.Config) (name, text string, err error) {
	name = config.TemplateOf(c)
	data, err := shipped.ReadFile("templates/" + name + ".tmpl")
	if err == nil {
		return name, string(data), nil
	}
	work, places := c.Environment.WorkDir, []string{name}
	if !filepath.IsAbs(name) {
		places = []string{file.Beside(c.File, name)}
		if work != "" {
			places = []string{filepath.Join(work, name), places[0]}
		}
	}
	for _, path := range places {
		data, err = file.Read(path, mostTemplate)
		switch {
		case err == nil:
			return path, string(data), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", fault.New(fault.Input, "%s: metadata.script_file: %w", c.File, err)
		}
	}
	return "", "", fault.New(fault.Input,
		"%s: metadata.script_file: there is no job template %q, neither shipped (trtllm, command) nor in %s or beside the config",
		c.File, name, cmp.Or(work, "environment.work_dir")).WithHint("SCRIPT_DIR sets environment.work_dir")
}

// render executes a job template, which is the user's program.
func (d *Data) render(name, text string) (string, error) {
	t, err := template.New(filepath.Base(name)).Funcs(functions).Option("missingkey=error").ParseFS(shipped,
		"templates/common.tmpl")
	if err == nil {
		t, err = t.Parse(text)
	}
	var b strings.Builder
	if err == nil {
		err = t.Execute(&b, d)
	}
	if err != nil {
		return "", fault.New(fault.Input, "job template: %w", err)
	}
	return b.String(), nil
}
