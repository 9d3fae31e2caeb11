//go:build cgo

package capi

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl"
)

// Names count in either case; what the library lists decides over storage, and over parameters.
func TestPlugins(t *testing.T) {
	found, err := open()
	must.Do(t, err)
	e := found.(*Engine)
	for name, want := range map[string]Plugin{
		"ucx": {Name: "UCX"}, "POSIX": {Name: "POSIX", Files: true}, "obj": {Name: "OBJ", Files: true, Objects: true},
		"": {Name: "UCX"},
	} {
		other, p, err := e.WithBackend(nixl.Backend{Name: name})
		if err != nil || p.Name != want.Name || p.Files != want.Files || p.Objects != want.Objects {
			t.Errorf("%q: %+v, %v", name, p, err)
			continue
		}
		if other.Info().Backend != "UCX" {
			t.Errorf("%s: ranks are connected by %s", name, other.Info().Backend)
		}
	}
	for _, c := range []struct {
		name, key string
		words     []string
	}{
		{"Mooncakes", "", []string{"--backend Mooncakes: NIXL", "it has ", "POSIX, UCX"}},
		{"UCX", "num_worker", []string{"UCX has no such parameter; it has device_list, engine_config", "num_workers"}},
		{"POSIX", "magic", []string{"--backend-param magic", "ios_pool_size"}},
		{"POSIX", "use_uring", []string{"--backend-param use_uring: perigee sets it"}},
		{"OBJ", "secret_key", []string{"--backend-param secret_key: a secret"}},
	} {
		params := map[string]string{}
		if c.key != "" {
			params[c.key] = "1"
		}
		_, _, err := e.WithBackend(nixl.Backend{Name: c.name, Params: params})
		if fault.KindOf(err) != fault.Usage {
			t.Errorf("%s %s: %v", c.name, c.key, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: want %q in it", err, w)
			}
		}
	}
	// A plugin that lists no parameters takes any.
	if _, _, err := e.WithBackend(nixl.Backend{Name: "OBJ", Params: map[string]string{"bucket": "b"}}); err != nil {
		t.Error(err)
	}
}

// The user's parameters reach the backend, and are shown.
func TestParameters(t *testing.T) {
	found, err := open()
	must.Do(t, err)
	e, _, err := found.(*Engine).WithBackend(nixl.Backend{Name: "UCX", Params: map[string]string{"num_workers": "2"}})
	must.Do(t, err)
	a, err := e.NewAgent(nixl.AgentConfig{Name: "parameters", OneHost: true})
	must.Do(t, err)
	defer a.Close()
	if p := a.Info().Params; p["num_workers"] != "2" || p["ucx_error_handling_mode"] != "none" {
		t.Errorf("%v", p)
	}
	e, _, err = found.(*Engine).WithBackend(nixl.Backend{Name: "UCX", Params: map[string]string{"num_workers": "none"}})
	must.Do(t, err)
	if a, err := e.NewAgent(nixl.AgentConfig{Name: "refused", OneHost: true}); err == nil {
		a.Close()
		t.Error("num_workers=none has not reached UCX")
	}
}

// A library whose plugin NET does not load, does not start, or works: the error names the step.
func TestOtherBackend(t *testing.T) {
	functions := func(changes map[string]string) map[string]string {
		all := map[string]string{
			"nixl_capi_create_configured_agent": `int nixl_capi_create_configured_agent(const char *n, void *c, void **a) { *a = "agent"; return 0; }`,
			"nixl_capi_string_list_size":        "int nixl_capi_string_list_size(void *l, size_t *n) { *n = 2; return 0; }",
			"nixl_capi_string_list_get": `int nixl_capi_string_list_get(void *l, size_t i, char **s)` +
				`{ *s = i ? "LIBFABRIC" : "UCX"; return 0; }`,
		}
		for name, body := range changes {
			all[name] = body
		}
		return all
	}
	load := func(changes map[string]string) *Engine {
		e, err := Load(imitation(t, "imitation", functions(changes)))
		must.Do(t, err)
		return e
	}
	_, _, err := load(map[string]string{"nixl_capi_get_plugin_params": "int nixl_capi_get_plugin_params() { return -2; }"}).
		WithBackend(nixl.Backend{Name: "libfabric"})
	wantFault(t, err, fault.Engine, "could not load the plugin LIBFABRIC", "the backend failed")
	if !strings.Contains(fault.HintOf(err), "libfabric") {
		t.Errorf("hint %q", fault.HintOf(err))
	}
	e, _, err := load(map[string]string{"nixl_capi_create_backend": "int nixl_capi_create_backend() { return -4; }"}).
		WithBackend(nixl.Backend{Name: "libfabric"})
	must.Do(t, err)
	_, err = e.NewAgent(nixl.AgentConfig{Name: "a", OneHost: true})
	wantFault(t, err, fault.Engine, "create the LIBFABRIC backend", "exception")
	if e, _, err = load(nil).WithBackend(nixl.Backend{Name: "libfabric"}); err != nil {
		t.Fatal(err)
	}
	for oneHost, why := range map[bool]string{true: "thread (LIBFABRIC on one host)", false: "thread (LIBFABRIC, never sleeps)"} {
		a, err := e.NewAgent(nixl.AgentConfig{Name: "a", OneHost: oneHost})
		must.Do(t, err)
		if i := a.Info(); i.Backend != "LIBFABRIC" || i.Params["progress"] != why || i.Params["tls"] != "" || i.Params["ucx_error_handling_mode"] != "" {
			t.Errorf("%+v", i)
		}
		a.Close()
	}
}
