package secret

import "testing"

func TestVariable(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"HF_TOKEN", "x"}: true, {"hf_token", "x"}: true, {"MAX_TOKENS", "8"}: false, {"TOKENIZER", "y"}: false,
		{"SLURM_JWT", "x"}: true, {"MY_PAT", ""}: true, {"COMPATIBLE", "x"}: false, {"KEY", "x"}: true, {"MONKEY", "x"}: false,
		{"HEADER", "Authorization: Basic x"}: true, {"PROXY", "me:x@proxy"}: true, {"PROXY", "http://proxy:1/a@b"}: false,
		{"A", "TOKEN=x"}: false,
	} {
		if got := Variable(pair[0], pair[1]); got != want {
			t.Errorf("%s=%s: %t", pair[0], pair[1], got)
		}
	}
}
