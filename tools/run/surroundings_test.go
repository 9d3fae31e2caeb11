package run

import (
	"os"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/result"
)

// with is a result of an engine whose environment held words NAME=VALUE, on so many hosts.
func with(engine string, hosts int, words ...string) *result.Document {
	d := earlier(engine, hosts)
	d.Environment = result.EnvironmentOf([]map[string]string{result.VariablesOf(words)})
	return d
}

// earlier is the same as earlier versions wrote it.
func earlier(engine string, hosts int, words ...string) *result.Document {
	d := &result.Document{Engine: &result.Engine{Name: engine, Params: map[string]string{"progress": "poll"}}}
	if engine == "nixl" {
		d.Engine.Library = "libnixl_capi.so"
	}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		d.Engine.Params[name] = value
	}
	d.World.Hosts = make([]result.Host, hosts)
	return d
}

// byRank is a result of two ranks that had different values of a variable.
func byRank(name, a, b string) *result.Document {
	d := earlier("nixl", 1)
	d.World.Size = 2
	d.Environment = result.EnvironmentOf([]map[string]string{{name: a}, {name: b}})
	return d
}

// clear unsets what this test's own environment may say.
func clear(t *testing.T) {
	for name := range result.VariablesOf(os.Environ()) {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
}

// A repetition has the variables of its run, says so, and says what it does not have.
func TestSurroundings(t *testing.T) {
	lined := with("shm", 2)
	lined.Job = &result.Invocation{Line: "1Gbit"}
	one := with("shm", 1)
	one.Job = lined.Job
	for _, c := range []struct {
		name, here, engine string
		of                 *result.Document
		hosts              int
		want               string
	}{
		{"none", "", Same, with("nixl", 1), 1, ""},
		{"set", "", Same, with("nixl", 1, "FI_PROVIDER=tcp", "UCX_TLS=tcp,self", "LD_PRELOAD=x"), 1, "the ranks have FI_PROVIDER=tcp UCX_TLS=tcp,self, as in the run of r.json"},
		{"the same here", "UCX_TLS=tcp", "nixl", with("nixl", 1, "UCX_TLS=tcp"), 1, ""},
		{"another here", "UCX_TLS=all", Same, with("nixl", 1, "UCX_TLS=tcp"), 1, "UCX_TLS is all here, which replaces that of the run of r.json (tcp)"},
		{"only here", "UCX_TLS=all", Same, with("nixl", 1), 1, "UCX_TLS is all here, which replaces that of the run of r.json (not set)"},
		{"code", "", Same, with("nixl", 1, "NIXL_PLUGIN_DIR=/x"), 1, "NIXL_PLUGIN_DIR was /x in the run of r.json, and is not set: a result does not choose where code and settings come from; set it yourself"},
		{"another than the ten", "", Same, with("nixl", 1, "UCX_IB_SL=1"), 1, "the ranks have UCX_IB_SL=1, as in the run of r.json"},
		{"logs", "UCX_LOG_LEVEL=warn", Same, with("nixl", 1, "UCX_LOG_FILE=/x", "NIXL_TELEMETRY_DIR=/y", "UCX_POSIX_DIR=/z"), 1, ""},
		{"an earlier version", "", Same, earlier("nixl", 1, "UCX_TLS=tcp"), 1, "the ranks have UCX_TLS=tcp, as in the run of r.json"},
		{"an earlier version, and one that it did not keep", "UCX_IB_SL=3", Same, earlier("nixl", 1), 1, "UCX_IB_SL, set here, may be new: r.json does not say whether its run had it, as it was made by an earlier perigee"},
		{"by rank", "", Same, byRank("UCX_IB_SL", "1", "3"), 1, "the ranks have UCX_IB_SL by rank: 1 (ranks 0); 3 (ranks 1), as in the run of r.json"},
		{"another engine", "UCX_TLS=all", "shm", with("nixl", 1, "UCX_NET_DEVICES=lo"), 1, ""},
		{"a run without NIXL", "UCX_TLS=all", Same, with("shm", 1), 1, ""},
		{"no engine", "", Same, &result.Document{}, 1, ""},
		{"hosts", "", Same, with("shm", 3), 1, "the run of r.json was on 3 hosts, this one is on one: nothing goes between hosts; under a launcher on as many hosts perigee rerun repeats it there"},
		{"a line", "", Same, lined, 1, "the run of r.json was on 2 hosts, this one is on one: nothing goes between hosts, and its --line is left out; under a launcher on as many hosts perigee rerun repeats it there"},
		{"a line of one host", "", Same, one, 1, ""},
		{"as many hosts", "", Same, lined, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			clear(t)
			if name, value, ok := strings.Cut(c.here, "="); ok {
				t.Setenv(name, value)
			}
			if got := strings.Join(Surroundings("r.json", c.of, Flags{Engine: c.engine}, c.hosts), "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Values by rank are of no use to another number of ranks.
func TestByRankNeedsTheSameRanks(t *testing.T) {
	clear(t)
	want := []string{"UCX_IB_SL was by rank: 1 (ranks 0); 3 (ranks 1) in the run of r.json, and is not set: there were 2 ranks"}
	if got := Surroundings("r.json", byRank("UCX_IB_SL", "1", "3"), Flags{Engine: Same, Ranks: new(3)}, 1); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A rank gets the variables that its own environment does not have.
func TestInherit(t *testing.T) {
	clear(t)
	t.Setenv("UCX_TLS", "all")
	o := order{Variables: map[string]string{"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}}
	o.ByRank = byRank("UCX_IB_SL", "1", "3").Environment.ByRank
	defer os.Unsetenv("UCX_IB_SL")
	if err := o.inherit(1); err != nil || os.Getenv("UCX_IB_SL") != "3" || os.Getenv("UCX_TLS") != "all" || os.Getenv("UCX_NET_DEVICES") != "lo" {
		t.Errorf("%v, UCX_TLS %q, UCX_NET_DEVICES %q", err, os.Getenv("UCX_TLS"), os.Getenv("UCX_NET_DEVICES"))
	}
	if err := (order{Variables: map[string]string{"UCX_RNDV_SCHEME": "a\x00b"}}).inherit(0); fault.KindOf(err) != fault.Input {
		t.Error(err)
	}
}

// A variable by which two results differ would hide what they differ by, were it the same for both.
func TestCheckSides(t *testing.T) {
	for _, c := range []struct {
		name, here, engine string
		a, b               *result.Document
		want               string
	}{
		{"each gets its own", "", Same, with("nixl", 1), with("nixl", 1, "UCX_TLS=tcp"), ""},
		{"as b", "UCX_TLS=tcp", Same, with("nixl", 1), with("nixl", 1, "UCX_TLS=tcp"), "UCX_TLS is tcp here, and would be the same for both sides: the run of a.json had none, that of b.json tcp"},
		{"as a", "UCX_TLS=tcp", Same, with("nixl", 1, "UCX_TLS=tcp"), with("nixl", 1, "UCX_TLS=all"), "UCX_TLS is tcp here, and would be the same for both sides: the run of a.json had tcp, that of b.json all"},
		{"another for both", "UCX_TLS=self", Same, with("nixl", 1), with("nixl", 1), ""},
		{"shm now", "UCX_TLS=tcp", "shm", with("nixl", 1), with("nixl", 1, "UCX_TLS=tcp"), ""},
		{"shm and NIXL", "UCX_TLS=tcp", Same, with("shm", 1), with("nixl", 1, "UCX_TLS=all"), ""},
		{"no engine", "UCX_TLS=tcp", Same, &result.Document{}, with("nixl", 1), ""},
		{"code", "", Same, with("nixl", 1, "NIXL_PLUGIN_DIR=/x"), with("nixl", 1), "NIXL_PLUGIN_DIR is not set here, and a result does not choose where code and settings come from, and would be the same for both sides: the run of a.json had /x, that of b.json none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clear(t)
			if name, value, ok := strings.Cut(c.here, "="); ok {
				t.Setenv(name, value)
			}
			err := CheckSides([2]string{"a.json", "b.json"}, [2]*result.Document{c.a, c.b}, c.engine)
			if err == nil && c.want != "" || err != nil && (err.Error() != c.want || fault.KindOf(err) != fault.Usage) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
