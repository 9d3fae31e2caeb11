package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/conf"
)

// What of a configuration other users may not see.
func TestMasked(t *testing.T) {
	shown := map[string]any{
		"environment": map[string]any{"worker_env_var": "HF_TOKEN=*** MAX_TOKENS=8 TOKENIZER=y TOKEN_2=*** A=B MY_pat=*** SLURM_JWT=***", "server_env_var": "***",
			"container_image": "docker://registry/x#y@1"},
		"benchmark": map[string]any{"env_var": map[string]any{"COMPATIBLE": "x", "PATH": "/bin", "MONKEY": true, "KEY": "***", "PAT_2": "***",
			"WANDB_API_KEY": "***", "HEADER": "***", "OTHER": "***", "PASSWORD": "***", "PROXY": "http://proxy:1/a@b", "MY_PROXY": "***"}},
		"accuracy":      map[string]any{"env_var": nil},
		"job":           map[string]any{"env": map[string]any{"DEEP": "***", "LIST": "***"}, "client": "curl $KEY"},
		"worker_config": map[string]any{"gen": map[string]any{"max_num_tokens": int64(8), "auth": "x", "e": map[string]any{"HF_TOKEN": "***"}}},
	}
	tree, err := conf.FromPlain("a.yaml", map[string]any{
		"environment": map[string]any{"worker_env_var": "HF_TOKEN=x=y MAX_TOKENS=8 TOKENIZER=y TOKEN_2=x A=B MY_pat= SLURM_JWT=x", "server_env_var": []any{"HF_TOKEN=x"},
			"container_image": "docker://me:x@registry/x#y@1"},
		"benchmark": map[string]any{"env_var": map[string]any{"COMPATIBLE": "x", "PATH": "/bin", "MONKEY": true, "KEY": "x", "PAT_2": "x",
			"WANDB_API_KEY": "x", "HEADER": "Authorization: Basic x", "OTHER": "bearer x", "PASSWORD": int64(1), "PROXY": "http://me:x@y@proxy:1/a@b", "MY_PROXY": "me:x@proxy:1"}},
		"accuracy":      map[string]any{"env_var": nil},
		"job":           map[string]any{"env": map[string]any{"DEEP": map[string]any{"A": "x"}, "LIST": []any{"x"}}, "client": "curl $KEY"},
		"worker_config": map[string]any{"gen": map[string]any{"max_num_tokens": int64(8), "auth": "x", "e": map[string]any{"HF_TOKEN": "x"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	masked, err := Masked(tree)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown, masked.Plain()); diff != "" {
		t.Error(diff)
	}
}

// What is no variable where one has to be may hold a part of a secret.
func TestMaskedMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"job: {env: 'HF_TOKEN:hidden'}":                                                                        "job:\n  env: \"***\"\n",
		"job: {env: {HF_TOKEN=hidden: 1, A: 2.0}}":                                                             "job:\n  env:\n    \"***\": \"***\"\n    A: 2.0\n",
		"environment: {server_env_var: \"A=1 HF_TOKEN:hidden 'PW=x hidden'\"}":                                 "environment:\n  server_env_var: \"A=1 *** *** ***\"\n",
		"environment: {server_env_var: {HF_TOKEN: hidden}}":                                                    "environment:\n  server_env_var:\n    HF_TOKEN: \"***\"\n",
		"slurm: {extra_args: '--export=ALL,HF_TOKEN=hidden --mem=0'}":                                          "slurm:\n  extra_args: \"--export=ALL,HF_TOKEN=*** --mem=0\"\n",
		"environment: {worker_env_vars: A=1 HF_TOKEN=hidden}":                                                  "environment:\n  worker_env_vars: \"A=1 HF_TOKEN=***\"\n",
		"environment: {worker_env_var: 'A=1,HF_TOKEN=hidden'}":                                                 "environment:\n  worker_env_var: \"A=1,HF_TOKEN=***\"\n",
		"environment: {env: [HF_TOKEN=hidden]}":                                                                "environment:\n  env:\n    - \"HF_TOKEN=***\"\n",
		"accuracy: {model_args_extra: 'n=1,auth_token=hidden'}":                                                "accuracy:\n  model_args_extra: \"n=1,auth_token=***\"\n",
		"job: {client: HF_TOKEN=known true}":                                                                   "job:\n  client: HF_TOKEN=known true\n",
		"environment: HF_TOKEN=hidden":                                                                         "environment: \"***\"\n",
		"environment: {HF_TOKEN=hidden}":                                                                       "environment:\n  HF_TOKEN...: null\n",
		"environment: {export HF_TOKEN=hidden, 'HF_TOKEN:hidden': 1}":                                          "environment:\n  HF_TOKEN...: null\n",
		"environment: {export HF_TOKEN: hidden, db_password: 17, A: 1}":                                        "environment:\n  export HF_TOKEN: \"***\"\n  db_password: \"***\"\n  A: 1\n",
		"job: {HF_TOKEN=hidden: 1}":                                                                            "job:\n  HF_TOKEN...: \"***\"\n",
		"environment: {server: 'HF_TOKEN=hidden'}":                                                             "environment:\n  server: \"HF_TOKEN=***\"\n",
		"'job.server': HF_TOKEN=hidden":                                                                        "job.server: \"HF_TOKEN=***\"\n",
		"job: {server: [HF_TOKEN=hidden]}":                                                                     "job:\n  server:\n    - \"HF_TOKEN=***\"\n",
		"environment: {worker_env: ['HF_TOKEN:hidden', 'A=1 HF_TOKEN:hidden']}":                                "environment:\n  worker_env:\n    - \"***\"\n    - \"***\"\n",
		"metadata: {references: {TOKEN_RATE@4: [1, 2, 3]}}":                                                    "metadata:\n  references:\n    TOKEN_RATE@4:\n      - 1\n      - 2\n      - 3\n",
		"metadata: {references: {hf_token: hidden, 'x@1': ['HF_TOKEN:hidden', 1]}}":                            "metadata:\n  references:\n    hf_token: \"***\"\n    x@1:\n      - \"***\"\n      - 1\n",
		"metadata: {accuracy: {datasets: [{name: gsm8k, hf_token: hidden}]}}":                                  "metadata:\n  accuracy:\n    datasets:\n      - name: gsm8k\n        hf_token: \"***\"\n",
		"metadata: {accuracy: {hf_token: hidden}}":                                                             "metadata:\n  accuracy:\n    hf_token: \"***\"\n",
		"accuracy: {tasks: {gsm8k: {model: m, hf_token: hidden, extra_kwargs: {max_gen_tokens: 8}}}}":          "accuracy:\n  tasks:\n    gsm8k:\n      model: m\n      hf_token: \"***\"\n      extra_kwargs:\n        max_gen_tokens: 8\n",
		"resources: {hf_token: hidden, prefill: {tp: 2, hf_token: hidden, note: 'HF_TOKEN:hidden'}}":           "resources:\n  hf_token: \"***\"\n  prefill:\n    tp: 2\n    hf_token: \"***\"\n    note: \"***\"\n",
		"environment: {hf_token: {value: hidden, of: [{a: 1}]}}":                                               "environment:\n  hf_token:\n    value: \"***\"\n    of:\n      - a: \"***\"\n",
		"worker_config: {gen: {HF_TOKEN: {value: hidden}, auth: {a: 1}}}":                                      "worker_config:\n  gen:\n    HF_TOKEN:\n      value: \"***\"\n    auth:\n      a: 1\n",
		"worker_config: {gen: {HTTP_PROXY: {value: 'me:hidden@proxy:1'}, proxy: {value: 'me:shown@proxy:1'}}}": "worker_config:\n  gen:\n    HTTP_PROXY:\n      value: \"***\"\n    proxy:\n      value: \"me:shown@proxy:1\"\n",
		"worker_config: {ctx: {HEADERS: {auth: ['Bearer hidden', x]}, e: {value: Bearer shown}}}":              "worker_config:\n  ctx:\n    HEADERS:\n      auth:\n        - \"***\"\n        - x\n    e:\n      value: Bearer shown\n",
		"environment: {http_proxy: {value: 'me:hidden@proxy:1', to: host}, h: {value: Bearer hidden}}":         "environment:\n  http_proxy:\n    value: \"***\"\n    to: host\n  h:\n    value: \"***\"\n",
		"environment: {model_path: 'postgres://u:hid/den@host http://h:1/a@b'}":                                "environment:\n  model_path: \"postgres://host http://h:1/a@b\"\n",
		"sweep: {job.env.HF_TOKEN: [hidden]}\nx: 1":                                                            "x: 1\n",
		"[HF_TOKEN=hidden]": "\"***\"\n",
	} {
		tree, err := conf.Parse("a.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		masked, err := Masked(tree)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := masked.YAML(); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", text, err, got)
		}
	}
}

// A value is looked at once, however deep it is: what aliases repeat may be as long as a whole configuration.
func TestMaskedTime(t *testing.T) {
	took := func(text string) time.Duration {
		tree, err := conf.Parse("a.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		least := time.Hour
		for range 3 {
			began := time.Now()
			if _, err := Masked(tree); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	below := func(keys int, key, element string, n int) string {
		return "a: &t " + strings.Repeat("a_", 2000) + "\nx: " + strings.Repeat("{"+key+": ", keys) + "[" +
			strings.TrimSuffix(strings.Repeat(element+", ", n), ", ") + "]" + strings.Repeat("}", keys)
	}
	long := strings.Repeat("A_", 500)
	for what, texts := range map[string][2]string{ // that take about as long
		"long values below many keys":         {below(90, "A_PROXY", "*t", 200), below(1, "A", "*t", 200)},
		"many values below many long keys":    {below(90, long, "1", 2000), below(90, long, "1", 1)}, // each key is looked at once in any case
		"many values of one long key, and it": {below(1, long, "1", 2000), below(1, "A", "1", 2000)},
	} {
		many, few := took(texts[0]), took(texts[1])
		t.Logf("%s: %v and %v", what, many, few)
		if many > 20*few+300*time.Millisecond {
			t.Errorf("%s: %v, otherwise %v", what, many, few)
		}
	}
}

// A value that cannot be read is not repeated where its key is that of a secret.
func TestMisreadSecrets(t *testing.T) {
	for _, value := range []string{"01777666", "0x1777666177766617776661777666", "1777666e9999", "!!int 1777666.5", "[01777666]"} {
		for name, shows := range map[string]bool{"DB_PASSWORD": false, "private_key": false, "RUN": true} {
			_, err := conf.Parse("a.yaml", []byte("job: {env: {"+name+": "+value+"}}"))
			if err == nil || strings.Contains(err.Error(), "1777666") != shows || !strings.Contains(err.Error(), "a.yaml:1: job.env."+name) {
				t.Errorf("%s: %s: %v", name, value, err)
			}
		}
	}
}
