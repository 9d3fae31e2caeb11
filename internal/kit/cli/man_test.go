package cli

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/must"
)

type grammar struct {
	Make struct {
		Size  string   `default:"1M" help:".Bytes, a 'size' with \\ and - in it."`
		Color string   `enum:"red,blue" default:"red" help:"The colour."`
		Gone  bool     `hidden:""`
		Files []string `arg:"" help:"The files."`
	} `cmd:"" help:"Make something."`
	Hidden struct{} `cmd:"" hidden:""`
}

func page(t *testing.T) string {
	t.Helper()
	k, err := kong.New(&grammar{}, kong.Name("prog"), kong.Description("Does things."))
	must.Do(t, err)
	root := *k.Model.Node
	root.Help = k.Model.Help
	var b bytes.Buffer
	p := ManPage{Name: "prog", Version: "prog 1", Date: "2026-01-02", SeeAlso: []string{"other(1)"}, Exits: []ExitCode{{3, "Bad file."}}}
	must.Do(t, p.Write(&b, &root))
	return b.String()
}

func TestPage(t *testing.T) {
	got := page(t)
	for _, want := range []string{
		`.TH "PROG" 1 "2026\-01\-02" "prog 1"`, ".SH \"NAME\"\nprog \\- Does things\n",
		".SS \"prog make [options] <files> ...\"\nMake something.\n",
		".B \\-\\-size=\"1M\"\n\\&.Bytes, a 'size' with \\e and \\- in it.\n",
		"The colour. One of: red, blue.", ".TP\n.B 3\nBad file.\n", "other(1)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, not := range []string{"gone", "hidden"} {
		if strings.Contains(got, not) {
			t.Errorf("%q is hidden, and stands in the page", not)
		}
	}
}

// groff itself finds no fault with the page.
func TestPageIsRoff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Fatal("this test needs groff: run `make test`, which installs it, or: apt-get install groff-base")
	}
	cmd := exec.Command(groff, "-man", "-Tascii", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page(t))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteFails(t *testing.T) {
	k, err := kong.New(&grammar{}, kong.Name("prog"))
	must.Do(t, err)
	if err := (ManPage{Name: "prog"}).Write(full{}, k.Model.Node); err == nil || err.Error() != "full" {
		t.Errorf("got %v", err)
	}
}
