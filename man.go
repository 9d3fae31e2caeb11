package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/version"
	"perigee/tools/run"
)

// manCmd writes the manual pages, for packages.
type manCmd struct {
	Dir  string `arg:"" type:"path" help:"Folder to write the pages into."`
	Date string `help:"Date in the footer, as 2026-11-22."`
}

// Run writes a page for the program and one for each command. Commands that run scenarios have the options of these in
// their pages, which takes running the scripts.
func (c manCmd) Run(k *kong.Kong) error {
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	root := *k.Model.Node
	root.Help = k.Model.Help
	var names []string
	for _, n := range root.Children {
		if n.Hidden {
			continue
		}
		names = append(names, "perigee-"+n.Name+"(1)")
		node, err := withScenarios(n)
		if err != nil {
			return err
		}
		if err := c.write("perigee "+n.Name, []string{"perigee(1)"}, node); err != nil {
			return err
		}
	}
	return c.write("perigee", names, summaries(&root))
}

// summaries returns a command with its commands' first level only: each has a
// separate page.
func summaries(root *kong.Node) *kong.Node {
	n := *root
	n.Children = nil
	for _, c := range root.Children {
		n.Children = append(n.Children, &kong.Node{Name: c.Name, Help: c.Help, Hidden: c.Hidden})
	}
	return &n
}

// withScenarios returns a command in which those that run a scenario have the job's flags and the scenario's own
// options.
func withScenarios(n *kong.Node) (*kong.Node, error) {
	node := *n
	if scenario := n.Tag.Get("scenario"); scenario != "" {
		grammar, _, err := run.Grammar(scenario)
		if err != nil {
			return nil, err
		}
		k, err := cli.Parser(grammar, kong.Name(n.Name))
		if err != nil {
			return nil, err
		}
		node = *k.Model.Node
		node.Name, node.Help = n.Name, n.Help
	}
	node.Children = nil
	for _, c := range n.Children {
		child, err := withScenarios(c)
		if err != nil {
			return nil, err
		}
		node.Children = append(node.Children, child)
	}
	return &node, nil
}

// write writes one page. That of the program itself has the table of exit codes, to which the others refer.
func (c manCmd) write(name string, seeAlso []string, n *kong.Node) error {
	var b bytes.Buffer
	p := cli.ManPage{Name: name, Version: "perigee " + version.Get().Version, Date: c.Date, SeeAlso: seeAlso}
	if name == "perigee" {
		for _, k := range fault.Kinds() {
			p.Exits = append(p.Exits, cli.ExitCode{Code: int(k), Meaning: k.Meaning()})
		}
	}
	if err := p.Write(&b, n); err != nil {
		return err
	}
	file := filepath.Join(c.Dir, strings.ReplaceAll(name, " ", "-")+".1")
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	return nil
}
