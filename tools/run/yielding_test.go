package run

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/lua"
)

// Options of a job give way to a scenario's options of the same name, each by itself.
func TestYielding(t *testing.T) {
	for _, c := range []struct{ own, words, rest, name, params string }{
		{"", "--backend X --size 1 --backend-param a=b --backend_param=c=d=e", "--size 1", "X", "[a=b c=d=e]"},
		{"", "--size 1", "--size 1", "given", "[]"},
		{"backend", "--backend X --backend-param a=b", "--backend X", "given", "[a=b]"},
		{"backend-param", "--backend X --backend-param a=b", "--backend-param a=b", "X", "[]"},
		{"junit", "--backend X --junit=f", "--junit=f", "X", "[]"},
		{"gpu-map", "--backend X --gpu-map=f --nic-map 0", "--gpu-map=f", "X", "[]"},
		{"nic-map", "--backend X --gpu-map=0 --nic-map f", "--nic-map f", "X", "[]"},
		{"", "-- --backend X", "-- --backend X", "given", "[]"},
	} {
		var sc lua.Scenario
		if c.own != "" {
			sc.Options = []lua.Option{{Name: c.own, Type: "string"}}
		}
		y := Yielding{Backend: "given"}
		rest, err := y.take("perigee run x", sc, strings.Fields(c.words))
		if got := strings.Join(rest, " "); err != nil || got != c.rest || y.Backend != c.name || fmt.Sprint(y.BackendParam) != c.params {
			t.Errorf("%q of a scenario with %q: %v, %q, %+v", c.words, c.own, err, got, y)
		}
		var out strings.Builder
		if _, err := parseOptions("perigee run x", sc, []string{"--help"}, cli.Streams{Out: &out, Err: io.Discard}); !errors.Is(err, ErrHelp) {
			t.Fatal(err)
		}
		for _, flag := range []string{"--backend=", "--backend-param=", "--junit="} {
			if n := strings.Count(out.String(), flag); n != 1 {
				t.Errorf("a scenario with %q: %s is %d times in its help", c.own, flag, n)
			}
		}
	}
}

// Parameters are pairs, each once.
func TestBackendParams(t *testing.T) {
	for text, want := range map[string]string{"a=b,c=": "", "a": `"a": wanted KEY=VALUE`, "=b": "wanted KEY=VALUE", "a=1,a=2": `a is given twice, as "1" and "2"`} {
		b, err := (Yielding{BackendParam: strings.Split(text, ",")}).backend()
		if want == "" {
			if err != nil || len(b.Params) != 2 || b.Params["a"] != "b" {
				t.Errorf("%s: %v, %v", text, b, err)
			}
		} else if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Maps that are none, or that nothing would use, are refused before the job begins.
func TestMaps(t *testing.T) {
	for _, c := range []struct{ engine, backend, gpus, nics, want string }{
		{"auto", "", "1,0", "0=eth0", ""},
		{"nixl", "ucx_mo", "0:1", "eth0+eth1", ""},
		{"nixl", "LIBFABRIC", "0", "", ""},
		{"nixl", "LIBFABRIC", "0", "eth0", "--nic-map has no effect on --backend LIBFABRIC"},
		{"shm", "", "0", "", "have no effect on --engine shm"},
		{"auto", "", "x", "", `--gpu-map x: "x"`},
		{"auto", "", "", "a,,b", `--nic-map a,,b: ""`},
	} {
		err := (Flags{Engine: c.engine, Yielding: Yielding{Backend: c.backend, GPUMap: c.gpus, NICMap: c.nics}}).Check()
		if c.want == "" && err != nil || c.want != "" && (fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

// A run that is repeated keeps its maps, unless it gets others or an engine that has none.
func TestMapsAreRepeated(t *testing.T) {
	old := &result.Document{Job: &result.Invocation{Engine: "nixl", GPUMap: "1,0", NICMap: "lo"}}
	for _, c := range []struct{ engine, gpus, backend, wantGPUs, wantNICs string }{
		{"nixl", "", "", "1,0", "lo"}, {"nixl", "0", "", "0", "lo"}, {"shm", "", "", "", ""}, {"nixl", "", "LIBFABRIC", "", ""},
	} {
		f := Flags{Engine: c.engine, Yielding: Yielding{GPUMap: c.gpus, Backend: c.backend}}
		if f.asIn(old, 1); f.Yielding.GPUMap != c.wantGPUs || f.Yielding.NICMap != c.wantNICs {
			t.Errorf("%+v: got %q and %q", c, f.Yielding.GPUMap, f.Yielding.NICMap)
		}
	}
}
