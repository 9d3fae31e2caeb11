package result

import (
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

func TestVariablesOf(t *testing.T) {
	got := VariablesOf([]string{"UCX_IB_SL=1", "UCX_TLS=", "UCX_LOG_FILE=/tmp/x=y", "FI_PROVIDER=efa", "NCCL_DEBUG=INFO", "PATH=/bin",
		"MY_UCX_TLS=tcp", "NIXL_API_TOKEN=abc", "NIXL_ETCD_ENDPOINTS=http://me:pw@host:1", "UCX_IB_PKEY=0x7fff"})
	want := map[string]string{"UCX_IB_SL": "1", "UCX_LOG_FILE": "/tmp/x=y", "FI_PROVIDER": "efa", "NCCL_DEBUG": "INFO",
		"NIXL_API_TOKEN": "", "NIXL_ETCD_ENDPOINTS": "http://host:1", "UCX_IB_PKEY": "0x7fff"}
	must.Equal(t, want, got)
}

func TestIsSetting(t *testing.T) {
	for name, want := range map[string]bool{
		"UCX_IB_SL": true, "UCX_IB_AR_ENABLE": true, "UCX_IB_GPU_DIRECT_RDMA": true, "NCCL_IB_HCA": true, "FI_EFA_USE_DEVICE_RDMA": true,
		"UCX_IB_PATH_MTU": true, "UCX_IB_SUBNET_PREFIX": true, "NIXL_PLUGIN_DIR": true, "UCX_MODULE_DIR": true,
		"UCX_LOG_FILE": false, "UCX_LOG_LEVEL": false, "UCX_POSIX_DIR": false, "NIXL_TELEMETRY_ENABLE": false, "NIXL_ETCD_ENDPOINTS": false,
		"NCCL_DEBUG_SUBSYS": false, "UCX_PROTO_INFO": false, "NIXL_API_TOKEN": false, "PATH": false,
	} {
		if got := IsSetting(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What all ranks have alike stands once, and so does what they have not.
func TestEnvironmentOf(t *testing.T) {
	got := EnvironmentOf([]map[string]string{
		{"UCX_TLS": "rc", "UCX_NET_DEVICES": "a", "UCX_X_TOKEN": ""}, nil, {"UCX_TLS": "rc", "UCX_NET_DEVICES": "b", "UCX_IB_SL": "1"}, nil})
	want := &Environment{Variables: map[string]string{"UCX_TLS": "rc"}, Withheld: []string{"UCX_X_TOKEN"}, ByRank: map[string][]ValueAt{
		"UCX_NET_DEVICES": {{"a", []int{0, 1, 3}}, {"b", []int{2}}}, "UCX_IB_SL": {{"1", []int{2}}}}}
	must.Equal(t, want, got)
	d := &Document{Environment: got}
	if s := d.Setting("UCX_NET_DEVICES"); s != "by rank: a (ranks 0-1, 3); b (ranks 2)" {
		t.Error(s)
	}
}

// Results are compared by every setting that both hold.
func TestSettingsDiffer(t *testing.T) {
	old := func(words ...string) *Document { // of an earlier perigee
		d := &Document{Engine: &Engine{Name: "nixl", Library: "libnixl_capi.so", Params: map[string]string{"progress": "poll"}}}
		for _, w := range words {
			name, value, _ := strings.Cut(w, "=")
			d.Engine.Params[name] = value
		}
		return d
	}
	with := func(words ...string) *Document {
		d := old()
		d.Environment = EnvironmentOf([]map[string]string{VariablesOf(words)})
		return d
	}
	shm := with("UCX_IB_SL=1")
	shm.Engine.Name = "shm"
	for _, c := range []struct {
		name         string
		a, b         *Document
		want, unkept string
	}{
		{"alike", with("UCX_IB_SL=1"), with("UCX_IB_SL=1"), "", ""},
		{"a value", with("UCX_IB_SL=1"), with("UCX_IB_SL=3"), "setting UCX_IB_SL of nixl: 1 and 3", ""},
		{"only one", with(), with("UCX_IB_AR_ENABLE=y"), "setting UCX_IB_AR_ENABLE of nixl: not given and y", ""},
		{"logs", with("UCX_LOG_FILE=/a", "NIXL_TELEMETRY_DIR=/b"), with(), "", ""},
		{"an old one, and the same", old("UCX_TLS=rc"), with("UCX_TLS=rc", "UCX_IB_SL=3"), "", "OLD was made by an earlier perigee"},
		{"an old one, and another", old("UCX_TLS=rc"), with("UCX_TLS=tcp"), "setting UCX_TLS of nixl: rc and tcp", "OLD was made"},
		{"two old ones", old(), old(), "", "both were made"},
		{"a secret", with("UCX_X_TOKEN=1"), with("UCX_X_TOKEN=2"), "", "values of names that look secret are not: UCX_X_TOKEN"},
		{"shm", shm, shm, "", ""},
	} {
		var list []string
		for _, d := range settingsDiffer(c.a, c.b) {
			list = append(list, d.String())
		}
		if got := strings.Join(list, "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if got := Unkept(c.a, c.b); got != c.unkept && (c.unkept == "" || !strings.HasPrefix(got, c.unkept)) {
			t.Errorf("%s: not kept: got %q, want %q", c.name, got, c.unkept)
		}
	}
}

func TestRanges(t *testing.T) {
	for got, want := range map[string]string{Ranges(nil): "", Ranges([]int{3}): "3", Ranges([]int{0, 1, 2, 5, 7, 8}): "0-2, 5, 7-8"} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
