package kvbench

import (
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/must"
	"perigee/spmd/boot"
)

// KVBench's command lines have the words True and False after options that are switches here.
func TestJoinBooleans(t *testing.T) {
	for line, want := range map[string]string{
		"profile --recreate_xfer True --num_iter 3":          "profile --recreate_xfer=true --num_iter 3",
		"profile --check-consistency false":                  "profile --check-consistency=false",
		"profile --filepath True --model false":              "profile --filepath True --model false", // which are no switches
		"profile --recreate_xfer --check_consistency=True x": "profile --recreate_xfer --check_consistency=True x",
		"true --enable_pt False true":                        "true --enable_pt=false true",
		"":                                                   "",
	} {
		if got := strings.Join(JoinBooleans(strings.Fields(line)), " "); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// A process meets others at etcd where the namespace says so and there are others.
func TestMeeting(t *testing.T) {
	for _, c := range []struct{ namespace, line, ranks, endpoints string }{
		{"/n", "", "2", ""},
		{"/n", "--etcd-endpoints http://h:1", "2", "http://h:1"},
		{"/n", "--num_initiator_dev 2 --num_target_dev 3", "5", ""},
		{"/n", "--num_initiator_dev 8 --num_target_dev 8 --mode MG", "2", ""},
		{"/n", "--backend POSIX", "", ""},
		{"", "--etcd-endpoints http://h:1", "", ""},
	} {
		t.Setenv(boot.EnvEtcdNamespace, c.namespace)
		var b Bench
		if _, err := cli.Take(&b, strings.Fields(c.line)); err != nil {
			t.Fatal(err)
		}
		known, err := b.known()
		must.Do(t, err)
		vars := b.meeting(b.processes(known.storage))
		if vars[boot.EnvEtcdRanks] != c.ranks || vars[boot.EnvEtcdEndpoints] != c.endpoints {
			t.Errorf("%+v: %v", c, vars)
		}
	}
}
