package kvbench

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/must"
)

// The help leaves out what a command warns of as without effect whatever else is given, and nothing else; all of it is
// parsed.
func TestQuiet(t *testing.T) {
	var grammar struct {
		Kvbench Cmd `cmd:""`
	}
	k, err := cli.Parser(&grammar, Quiet())
	must.Do(t, err)
	const idle = "benchmark-group device-list enable-pt enable-vmm mode progress-threads runtime-type worker-type"
	const sizes = "max-batch-size max-block-size start-batch-size start-block-size"
	var never []string // of others
	for f := range reflect.TypeFor[others]().Fields() {
		never = append(never, strings.ReplaceAll(f.Tag.Get("name"), "_", "-"))
	}
	for command, want := range map[string]string{"plan": sizes, "profile": idle + " " + sizes, "nixlbench": idle, "kvcache": ""} {
		at := slices.IndexFunc(k.Model.Children[0].Children, func(n *kong.Node) bool { return n.Name == command })
		var hidden, groups []string
		for _, f := range k.Model.Children[0].Children[at].Flags {
			if f.Hidden && !slices.Contains(never, f.Name) {
				hidden = append(hidden, f.Name)
			} else if f.Group != nil {
				groups = append(groups, f.Group.Key)
			}
		}
		slices.Sort(hidden)
		wanted := strings.Fields(want)
		if slices.Sort(wanted); !slices.Equal(hidden, wanted) {
			t.Errorf("%s hides %q, want %q", command, hidden, wanted)
		}
		if groups = slices.Compact(groups); command != "kvcache" && !slices.Equal(groups[len(groups)-2:], []string{"Plugins", cli.Originals}) {
			t.Errorf("%s has the groups %q: those of single plugins and the originals' names come last", command, groups)
		}
	}
	if _, err := k.Parse([]string{"kvbench", "profile", "--model", "m", "--start_block_size", "1", "--enable_pt", "--mode", "MG"}); err != nil {
		t.Fatal(err)
	}
	b := grammar.Kvbench.Profile.Bench
	if got := append(b.idleHere(""), b.ignored()...); len(got) != 3 {
		t.Errorf("warnings: %q", got)
	}
}
