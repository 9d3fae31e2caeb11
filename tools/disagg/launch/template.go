package launch

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"perigee/internal/cli"
	"perigee/internal/fault"
)

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
