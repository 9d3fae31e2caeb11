package config

import (
	"testing"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/must"
)

// What of a configuration other users may not see.
func TestMasked(t *testing.T) {
	shown := map[string]any{
		"environment": map[string]any{"worker_env_var": "HF_TOKEN=*** MAX_TOKENS=8 TOKENIZER=y TOKEN_2=*** A=B SLURM_JWT=***",
			"container_image": "docker://registry/x#y@1"},
		"benchmark": map[string]any{"env_var": map[string]any{"COMPATIBLE": "x", "PATH": "/bin", "MONKEY": true, "KEY": "***", "PAT_2": "***",
			"WANDB_API_KEY": "***", "PASSWORD": "***", "PROXY": "http://proxy:1/a@b"}},
		"accuracy":      map[string]any{"env_var": nil},
		"job":           map[string]any{"env": map[string]any{"A": "x", "HF_TOKEN": "***"}, "client": "curl $KEY"},
		"worker_config": map[string]any{"gen": map[string]any{"max_num_tokens": int64(8), "e": map[string]any{"HF_TOKEN": "***"}}},
	}
	tree, err := conf.FromPlain("a.yaml", map[string]any{
		"environment": map[string]any{"worker_env_var": "HF_TOKEN=x=y MAX_TOKENS=8 TOKENIZER=y TOKEN_2=x A=B SLURM_JWT=x",
			"container_image": "docker://me:x@registry/x#y@1"},
		"benchmark": map[string]any{"env_var": map[string]any{"COMPATIBLE": "x", "PATH": "/bin", "MONKEY": true, "KEY": "x", "PAT_2": "x",
			"WANDB_API_KEY": "x", "PASSWORD": int64(1), "PROXY": "http://me:x@proxy:1/a@b"}},
		"accuracy":      map[string]any{"env_var": nil},
		"job":           map[string]any{"env": map[string]any{"A": "x", "HF_TOKEN": "x"}, "client": "curl $KEY"},
		"worker_config": map[string]any{"gen": map[string]any{"max_num_tokens": int64(8), "e": map[string]any{"HF_TOKEN": "x"}}},
	})
	must.Do(t, err)
	masked, err := Masked(tree)
	must.Do(t, err)
	must.Equal(t, shown, masked.Plain())
}

// What looks secret by its name is masked wherever it stands, also where a variable is written in a wrong place or way.
func TestMaskedMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"job: {env: 'HF_TOKEN:hidden'}":                                        "job:\n  env: \"HF_TOKEN:***\"\n",
		"environment: {server_env_var: {HF_TOKEN: hidden}}":                    "environment:\n  server_env_var:\n    HF_TOKEN: \"***\"\n",
		"slurm: {extra_args: '--export=ALL,HF_TOKEN=hidden --mem=0'}":          "slurm:\n  extra_args: \"--export=ALL,HF_TOKEN=*** --mem=0\"\n",
		"environment: {env: [HF_TOKEN=hidden]}":                                "environment:\n  env:\n    - \"HF_TOKEN=***\"\n",
		"accuracy: {model_args_extra: 'n=1,auth_token=hidden'}":                "accuracy:\n  model_args_extra: \"n=1,auth_token=***\"\n",
		"job: {client: HF_TOKEN=known true}":                                   "job:\n  client: HF_TOKEN=known true\n",
		"environment: {db_password: 17, A: 1}":                                 "environment:\n  db_password: \"***\"\n  A: 1\n",
		"metadata: {references: {TOKEN_RATE@4: [1, 2, 3]}}":                    "metadata:\n  references:\n    TOKEN_RATE@4:\n      - 1\n      - 2\n      - 3\n",
		"accuracy: {tasks: {gsm8k: {hf_token: hidden, max_gen_tokens: 8}}}":    "accuracy:\n  tasks:\n    gsm8k:\n      hf_token: \"***\"\n      max_gen_tokens: 8\n",
		"environment: {hf_token: {value: hidden, of: [{a: 1}]}}":               "environment:\n  hf_token:\n    value: \"***\"\n    of:\n      - a: \"***\"\n",
		"environment: {model_path: 'postgres://u:hidden@host http://h:1/a@b'}": "environment:\n  model_path: \"postgres://host http://h:1/a@b\"\n",
		"sweep: {job.env.HF_TOKEN: [hidden]}\nx: 1":                            "x: 1\n",
		"[HF_TOKEN=hidden]": "\"***\"\n",
	} {
		tree, err := conf.Parse("a.yaml", []byte(text))
		must.Do(t, err)
		masked, err := Masked(tree)
		must.Do(t, err)
		if got, err := masked.YAML(); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", text, err, got)
		}
	}
}
