package secret

import (
	"strings"
	"testing"
)

func TestVariable(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"HF_TOKEN", "x"}: true, {"hf_token", "x"}: true, {"MAX_TOKENS", "8"}: false, {"TOKENIZER", "y"}: false,
		{"SLURM_JWT", "x"}: true, {"MY_PAT", ""}: true, {"COMPATIBLE", "x"}: false, {"KEY", "x"}: true, {"MONKEY", "x"}: false,
		{"HEADER", "Authorization: Basic x"}: true, {"PROXY", "me:x@proxy"}: true, {"PROXY", "http://proxy:1/a@b"}: false,
		{"A", "TOKEN=x"}: false, {"ACCESSKEY", "x"}: true, {"JWT", "x"}: true,
	} {
		if got := Variable(pair[0], pair[1]); got != want {
			t.Errorf("%s=%s: %t", pair[0], pair[1], got)
		}
	}
}

func TestTextsOfMessages(t *testing.T) {
	for text, want := range map[string]string{
		"HF_TOKEN": "HF_TOKEN", "HF_TOKEN:x": "HF_TOKEN...", "hf_token x": "hf_token...", "max batch size": "max batch size", "": "", "=x": "=x",
		"HF_TOKEN=x":            "HF_TOKEN...",
		"declare -x HF_TOKEN:x": "HF_TOKEN...", "export -n HF_TOKEN x": "HF_TOKEN...", "readonly HF_TOKEN=x": "HF_TOKEN...", "set HF_TOKEN x": "HF_TOKEN...",
		"export HF_TOKEN=x": "HF_TOKEN...", "--env=HF_TOKEN=x": "HF_TOKEN...", "A=1 HF_TOKEN=x": "A=1 HF_TOKEN=...",
	} {
		if got := Name(text); got != want {
			t.Errorf("Name(%q): got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"A=B": "A=B", "HF_TOKEN=x": "HF_TOKEN=...", "A=bearer x": "A=...", "HF_TOKEN: x": "HF_TOKEN...", "two words": "two words",
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q): got %q, want %q", text, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	for text, want := range map[string]string{
		"--export=ALL,HF_TOKEN=x,A=B --mem=0": "--export=ALL,HF_TOKEN=***,A=B --mem=0", "--export=HF_TOKEN=x": "--export=HF_TOKEN=***",
		"--export=NONE": "--export=NONE", "": "", "--gres=gpu:4 --exclusive": "--gres=gpu:4 --exclusive", "HF_TOKEN=x=y": "HF_TOKEN=***",
		"password='a b',c d": "password=*** d", `-o password="a b"c,e=1 d`: "-o password=***,e=1 d", "'password=a b' c": "'password=*** c", "password='a b": "password=***",
		"password=a,b;c d=1,e": "password=*** d=1,e", "--export=HF_TOKEN=x,ALL --mem=0": "--export=HF_TOKEN=*** --mem=0",
		"'--export=ALL,HF_TOKEN=a s3cr' --mem=0": "'--export=ALL,HF_TOKEN=*** --mem=0", `--export="ALL,HF_TOKEN=a s3cr" x`: "--export=\"ALL,HF_TOKEN=*** x",
		"--export=$'ALL,HF_TOKEN=a s3cr'": "--export=$'ALL,HF_TOKEN=***", "--comment='a b' HF_TOKEN=x y": "--comment='a b' HF_TOKEN=*** y", "it's HF_TOKEN='a s3cr' b": "it's HF_TOKEN=*** b", "it's 'HF_TOKEN=a s3cr' b": "it's 'HF_TOKEN=*** b",
		"A=1,HF_TOKEN=x;B=2": "A=1,HF_TOKEN=***;B=2", "model=m,auth_token=x": "model=m,auth_token=***", "größe=1 a==": "größe=1 a==",
		strings.Repeat("a=", 1<<17):    strings.Repeat("a=", 1<<17), // in no time
		strings.Repeat("key='", 1<<17): "key=***", strings.Repeat("key=,", 1<<17): "key=***",
		"--export=ALL,HF_TOKEN=a,s3cr= --mem=0": "--export=ALL,HF_TOKEN=*** --mem=0", "HF_TOKEN=a,s3cr==,A=1": "HF_TOKEN=***,A=1", "HF_TOKEN=a,s/3=b,B==1": "HF_TOKEN=***,B==1",
	} {
		if got := Arguments(text, "***"); got != want {
			t.Errorf("%.200q: got %.200q, want %.200q", text, got, want)
		}
	}
}

// Passwords in addresses may hold what ends one elsewhere; ports, paths and versions of images stay.
func TestUsersOfAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"https://me:p@s3cr/w@h/x": "https://h/x", "https://me:s3cr/w@h/x": "https://h/x", "https://me@corp.com:s3/cr@h": "https://h", "https://me:12@s3/cr@h": "https://h",
		"https://me:123456/s3cr@h": "https://h", "https://me:#s3/cr@h": "https://h", "https://me:s3#c/r@h": "https://h", "https://me:s3#c@r/x@h": "https://h", "https://m#e:s3/cr@h": "https://h",
		"http://host:8000/path@x": "http://host:8000/path@x", "http://me@host:8000/path@x": "http://host:8000/path@x", "http://[::1]:80/a@b": "http://[::1]:80/a@b",
		"http://host/a:b@c": "http://host/a:b@c", "docker://me:s3cr@registry/x#y@1": "docker://registry/x#y@1", "docker://me@registry#x:1": "docker://registry#x:1",
		"http://me:s3@cr@h:1/a@b": "http://h:1/a@b", "http://me:s3@cr/x@h:1/a": "http://h:1/a",
		"http://h1:8000,http://h2:8000/x@1": "http://h1:8000,http://h2:8000/x@1", "http://a:8000;http://me@b": "http://a:8000;http://b",
		"http://$NODE:$PORT/v1/x@y": "http://$NODE:$PORT/v1/x@y", "http://{host}:{port}/x@v": "http://{host}:{port}/x@v", "http://me:$3cr@h": "http://h",
		"http://me:1@h http://h:1/a@b": "http://h http://h:1/a@b",
	} {
		if got := Addresses(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
