package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

func confEnv(path string) func(string) (string, bool) {
	return func(key string) (string, bool) { return path, key == EnvConf }
}

func writeConf(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAuthSocket(t *testing.T) {
	for text, want := range map[string]string{
		"AuthInfo=socket=/run/m.sock\n":                           "/run/m.sock",
		"authinfo = cred_expire=30, socket=/run/m.sock,ttl=60 \n": "/run/m.sock",
		"AuthInfo=\"socket=/run/m.sock\"\n":                       "/run/m.sock",
		"AuthInfo=cred_expire=30,\\\nsocket=/run/m.sock":          "/run/m.sock",
		"AuthInfo=cred_expire=30\n":                               "",
		"#AuthInfo=socket=/run/m.sock\n":                          "",
		"":                                                        "",
		"NodeName=n[1-4] CPUs=2\nAuthInfo=socket=/run/a # old\n":  "/run/a",
	} {
		c, err := ReadConfig(confEnv(writeConf(t, t.TempDir(), "slurm.conf", text)))
		if err != nil || c.AuthSocket() != want {
			t.Errorf("%q: got %q, %v; want %q", text, c.AuthSocket(), err, want)
		}
	}
}

func TestInclude(t *testing.T) {
	dir := t.TempDir()
	writeConf(t, dir, "auth.conf", "AuthInfo=socket=/run/m.sock\n")
	c, err := ReadConfig(confEnv(writeConf(t, dir, "slurm.conf", "ClusterName=c\nInclude auth.conf\n")))
	if err != nil || c.AuthSocket() != "/run/m.sock" || c["clustername"] != "c" {
		t.Errorf("got %v, %v", c, err)
	}
	loop := writeConf(t, dir, "loop.conf", "include loop.conf\n")
	if _, err := ReadConfig(confEnv(loop)); err == nil || !strings.Contains(err.Error(), "include each other") {
		t.Errorf("a loop: %v", err)
	}
	if _, err := ReadConfig(confEnv(dir)); err == nil {
		t.Error("a folder was read")
	}
	if _, err := ReadConfig(confEnv(filepath.Join(dir, "none"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("AuthInfo=socket=/a,ttl=3\\\nInclude x\n# c\nNodeName=a\n")
	f.Add("include a.conf\nAuthInfo=\"socket=/a\" # c\nClusterName = b\nPartitionName=x\n")
	fuzztest.Run(f, []string{"AuthInfo", "=", "socket=/a", "\"", ",", "ttl=3", "\\\n", "Include ", "x.conf", "#", "\n", " ", "NodeName=n", "\t"}, func(t *testing.T, text string) {
		c := Config{}
		if _, err := c.parse(strings.NewReader(text)); err != nil {
			return
		}
		for key := range c {
			if key == "" || key != strings.ToLower(key) || strings.ContainsAny(key, "=#\n") {
				t.Fatalf("%q: key %q", text, key)
			}
		}
		c.AuthSocket()
	})
}
