package kvbench

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
)

// Quiet is an option of the parser. It leaves what has no effect in a command out of its help: options that are there
// for programs which know nixlbench's. They are parsed, and warned of, all the same. What only nixlbench has, what
// belongs to one plugin, and nixlbench's own names stand at the end, by themselves.
func Quiet() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, top := range k.Model.Children {
			for _, command := range top.Children {
				if top.Name == "kvbench" {
					quiet(command)
				}
			}
		}
		return nil
	})
}

func quiet(command *kong.Node) {
	sizes := []string{"start_block_size", "max_block_size", "start_batch_size", "max_batch_size"}
	for _, f := range command.Flags {
		i := slices.IndexFunc(benchFields(), func(b benchField) bool { return b.name == f.Name })
		if i < 0 || f.Group == nil {
			continue
		}
		if f.Name == "num_iter" { // help has perigee's name
			f.Name, f.Aliases = "iters", []string{"num_iter"}
		}
		_, plugin := backendParams[f.Name]
		meets := f.Name == "etcd_endpoints" && command.Name != "plan" // ranks may meet there
		switch perigee := benchFields()[i].scenario || meets; {
		case slices.Contains(sizes, f.Name):
			f.Hidden = command.Name != "nixlbench"
		case plugin:
			f.Group = &kong.Group{Key: "Plugins", Title: "Plugins for storage and GPUs"}
		case !perigee && command.Name == "plan":
			f.Group = &kong.Group{Key: "Nixlbench", Title: "In the nixlbench command only"}
		case !perigee:
			f.Hidden = true
		}
		if f.Group.Key == "Benchmark" && strings.Contains(f.Name, "_") {
			f.Group = &kong.Group{Key: cli.Originals, Title: cli.Originals}
		}
	}
	slices.SortStableFunc(command.Flags, func(a, b *kong.Flag) int { return last(a) - last(b) })
}

// last orders flags by their group: the help has groups as they come.
func last(f *kong.Flag) int {
	if f.Group == nil {
		return 0
	}
	return 1 + slices.Index([]string{"Storage", "Nixlbench", "Plugins"}, f.Group.Key)
}
