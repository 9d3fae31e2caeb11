package ep

import (
	"strings"
	"testing"

	"perigee/internal/cli"
	"perigee/internal/fault"
)

// What the document's variables mean depends on who has started the process.
func TestNodes(t *testing.T) {
	step := "SLURM_PROCID=1 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS="
	second := nodes{count: 2, node: 1, perNode: 8, master: "n1", port: "9999"}
	for _, test := range []struct {
		args, env string
		want      nodes // without count: one node, or a launcher's rank
		complaint string
	}{
		{"", "", nodes{}, ""},
		{"", "WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1", second, ""},
		{"--world-size 2 --rank=1 --master-addr n1", "WORLD_SIZE=3", second, ""},
		// A launcher's ranks, and torchrun's.
		{"", "WORLD_SIZE=16 RANK=9 LOCAL_RANK=1", nodes{}, ""},
		{"", step + "16", nodes{}, ""},
		{"", step + "16 WORLD_SIZE=16 RANK=1", nodes{}, ""},
		{"", step + "2 WORLD_SIZE=16 RANK=9 LOCAL_RANK=1", nodes{}, ""},
		// One command on each node, started by srun.
		{"", step + "2 WORLD_SIZE=2 RANK=1 MASTER_ADDR=n1", second, ""},
		{"--world-size 2 --rank 1 --master-addr n1", step + "2", second, ""},
		{"--world-size 2", step + "16", nodes{}, "--world-size, --rank and --master-addr have no effect"},
		{"--world-size 2", "PMI_RANK=1", nodes{}, "--world-size, --rank and --master-addr have no effect"},
	} {
		var f nodeFlags
		if _, err := cli.Take(&f, strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		got, err := f.nodes(func(name string) string {
			for word := range strings.FieldsSeq(test.env) {
				if value, found := strings.CutPrefix(word, name+"="); found {
					return value
				}
			}
			return ""
		})
		if test.complaint != "" {
			if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), test.complaint) {
				t.Errorf("%s with %s: %v, want %s", test.args, test.env, err, test.complaint)
			}
			continue
		}
		if got == nil {
			got = &nodes{}
		}
		if err != nil || *got != test.want {
			t.Errorf("%s with %s: %+v, %v; want %+v", test.args, test.env, *got, err, test.want)
		}
	}
}
