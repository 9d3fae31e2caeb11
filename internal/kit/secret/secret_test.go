package secret

import (
	"os/exec"
	"strings"
	"testing"
)

func TestVariable(t *testing.T) {
	for name, want := range map[string]bool{
		"HF_TOKEN": true, "hf_token": true, "TOKEN_2": true, "MAX_TOKENS": false, "TOKENIZER": false, "SLURM_JWT": true, "JWT": true, "MY_PAT": true,
		"COMPATIBLE": false, "PATH": false, "KEY": true, "MONKEY": false, "PROXY": false, "ACCESSKEY": true, "PAT_2": true, "DB_PASSWORD": true, "A": false,
	} {
		if got := Variable(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
		grep := exec.Command("grep", "-iE", Pattern) // as scripts of jobs do
		grep.Stdin = strings.NewReader(name + "=x\n")
		if got := grep.Run() == nil; got != want {
			t.Errorf("grep: %s: %t", name, got)
		}
	}
}

func TestMask(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"two words":                           "two words",
		"HF_TOKEN":                            "HF_TOKEN",
		"HF_TOKEN=x=y":                        "HF_TOKEN=***",
		"HF_TOKEN:x":                          "HF_TOKEN:***",
		"HF_TOKEN: x y":                       "HF_TOKEN: *** y",
		"A=1 HF_TOKEN=x MAX_TOKENS=8":         "A=1 HF_TOKEN=*** MAX_TOKENS=8",
		"--export=ALL,HF_TOKEN=x,A=B --mem=0": "--export=ALL,HF_TOKEN=***,A=B --mem=0",
		"--env=HF_TOKEN=x":                    "--env=HF_TOKEN=***",
		"password='a b';c":                    "password=***;c",
		"model=m,auth_token=x":                "model=m,auth_token=***",
		"https://me:x@host:1/a b":             "https://host:1/a b",
		"http://host:8000/path@x":             "http://host:8000/path@x",
	} {
		if got := Mask(text, "***"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := Text("export HF_TOKEN=x"); got != "export HF_TOKEN=..." {
		t.Errorf("got %q", got)
	}
}
