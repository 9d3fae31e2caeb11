package cli

import (
	"testing"

	"perigee/internal/kit/must"
)

func TestBothSpellings(t *testing.T) {
	for _, args := range [][]string{
		{"plan", "--model-config", "a", "--on-off", "--etcd-endpoint", "x", "--page_size=3"},
		{"plan", "--model_config=a", "--on_off", "--etcd_endpoint=x", "--page-size", "3"},
	} {
		var g struct {
			Plan struct {
				ModelConfig   string
				OnOff         bool
				EtcdEndpoints string `aliases:"etcd-endpoint"`
				PageSize      int    `name:"page_size"`
			} `cmd:""`
		}
		k, err := Parser(&g)
		must.Do(t, err)
		if _, err := k.Parse(args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		if p := g.Plan; p.ModelConfig != "a" || !p.OnOff || p.EtcdEndpoints != "x" || p.PageSize != 3 {
			t.Errorf("%q: got %+v", args, p)
		}
	}
}
