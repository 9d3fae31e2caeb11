package config

import (
	"testing"

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
