package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/kit/page/pagetest"
)

// Every command of docs/gallery.md runs as it stands there, every picture shows the page of its name, and every page
// begins with a sentence, or a verdict. With PERIGEE_SCREENSHOTS pictures like those are made in that folder.
func TestGallery(t *testing.T) {
	text := must.Read(t, "../docs/gallery.md")
	commands := "set -ex\n"
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		commands += m[1]
	}
	dir := harness.Files(t, map[string]string{"gallery.sh": commands})
	o := harness.Start(t, harness.Command{Dir: dir, Argv: []string{"bash", "gallery.sh"},
		Env: []string{"PATH=" + filepath.Dir(harness.Program) + ":" + os.Getenv("PATH")}}).Wait()
	if o.Code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
	browser := pagetest.Start(t)
	pictures := regexp.MustCompile(`!\[.+\]\(gallery/(\w+)\.png\)`).FindAllStringSubmatch(string(text), -1)
	if questions := strings.Count(string(text), "\n## "); questions != 10 || len(pictures) < 8 {
		t.Errorf("%d questions and %d pictures", questions, len(pictures))
	}
	for _, m := range pictures {
		if _, err := os.Stat(filepath.Join("../docs/gallery", m[1]+".png")); err != nil {
			t.Error(err)
		}
		tab := browser.Open(t, filepath.Join(dir, m[1]+".html"), pagetest.View{Height: 800})
		if said := pagetest.Eval[string](tab, `(document.querySelector(".sentence") || document.querySelector("h1")).innerText`); len(said) < 10 {
			t.Errorf("%s says %q", m[1], said)
		}
		tab.Screenshot(m[1])
	}
}
