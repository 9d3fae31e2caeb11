// Package pagetest opens perigee's HTML pages in a real browser, Debian's chromium without a window, and fails the
// test if a page asks the network for anything or complains on its console.
//
// A test package starts one Browser and opens many Tabs, each in a View: light, dark or narrow. A Tab clicks, hovers
// and types as a reader would, and Eval asks the page's own scripts for values, which tests compare with those that Go
// computes. FitsWidth finds tables that would push the page sideways.
//
// Where PERIGEE_SCREENSHOTS names a folder, Tab.Screenshot writes there, for people to look at. Where there is no
// chromium, Start fails the test.
package pagetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Variable names the folder for screenshots in the environment.
const Variable = "PERIGEE_SCREENSHOTS"

// patience is a watchdog, far above what anything takes.
const patience = 5 * time.Minute

// Browser is a running chromium. A test package starts one and opens many tabs.
type Browser struct{ ctx context.Context }

// Start runs chromium until the test ends. It fails the test where there is none.
func Start(t testing.TB) *Browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Fatal("no chromium: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true),
		// Fewer processes: tests share few cores.
		chromedp.Flag("disable-features", "OptimizationHints,MediaRouter,Translate"),
		chromedp.Flag("disable-crash-reporter", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("close chromium: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{ctx}
}

// View is how a page is looked at. The zero value is a desktop window in light
// colours.
type View struct {
	Width, Height int  // of the window in CSS pixels; 1280 x 900 where 0
	Dark          bool // the system prefers dark colours
	Print         bool // as on paper
	Scale         float64
}

// The views in which every page should be looked at.
var (
	Light  = View{}
	Dark   = View{Dark: true}
	Narrow = View{Width: 390, Height: 844}
)

// Views are all of them, by name.
var Views = map[string]View{"light": Light, "dark": Dark, "narrow": Narrow}

// Tab is a loaded page.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests []string // of anything but the page itself
	trouble  []string // errors and warnings of the console, exceptions
}

// Open loads the file at path. When the test ends it fails if the page has asked
// for anything from outside of its file, or has complained.
func (b *Browser) Open(t testing.TB, path string, v View) *Tab {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(b.ctx)
	ctx, late := context.WithTimeout(ctx, patience)
	tab := &Tab{t: t, ctx: ctx}
	own := (&url.URL{Scheme: "file", Path: absolute}).String()
	t.Cleanup(func() {
		tab.check()
		late()
		cancel()
	})
	if err := chromedp.Listen(ctx, func(event any) { tab.note(own, event) }); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	do(tab, network.Enable, network.EnableParams{})
	do(tab, log.Enable, cdp.Empty{})
	do(tab, runtime.Enable, cdp.Empty{})
	tab.Resize(v)
	do(tab, emulation.SetEmulatedMedia, v.media())
	tab.Run(chromedp.Navigate(own))
	return tab
}

// Resize gives the window the size of another view; the page stays.
func (tab *Tab) Resize(v View) {
	tab.t.Helper()
	do(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: int64(cmp.Or(v.Width, 1280)), Height: int64(cmp.Or(v.Height, 900)),
		DeviceScaleFactor: cmp.Or(v.Scale, 1),
		Mobile:            v.Width != 0 && v.Width < 600,
	})
}

func (v View) media() emulation.SetEmulatedMediaParams {
	p := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: "light"}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if v.Dark {
		p.Features[0].Value = "dark"
	}
	if v.Print {
		p.Media = "print"
	}
	return p
}

// do calls the browser.
func do[P, R any](tab *Tab, c cdp.Command[P, R], params P) R {
	tab.t.Helper()
	r, err := chromedp.Call(tab.ctx, c, params)
	if err != nil {
		tab.fail(c.Method, err)
	}
	return r
}

// note keeps what a good page never does.
func (tab *Tab) note(own string, event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u := e.Request.URL
		if u != own && !strings.HasPrefix(u, own+"#") && !strings.HasPrefix(u, "data:") &&
			!strings.HasPrefix(u, "blob:") {
			tab.requests = append(tab.requests, u)
		}
	case *network.EventWebSocketCreated:
		tab.requests = append(tab.requests, e.URL)
	case *runtime.EventExceptionThrown:
		tab.trouble = append(tab.trouble, describe(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if kind := string(e.Type); kind != "error" && kind != "warning" && kind != "assert" {
			return
		}
		words := []string{"console." + string(e.Type)}
		for _, a := range e.Args {
			words = append(words, string(a.Value)+a.Description)
		}
		tab.trouble = append(tab.trouble, strings.Join(words, " "))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tab.trouble = append(tab.trouble, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// Trouble returns what the page has asked of the network and what it has said
// on its console so far, and forgets it: for tests of pages that are bad on
// purpose.
func (tab *Tab) Trouble() (requests, console []string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	requests, console = tab.requests, tab.trouble
	tab.requests, tab.trouble = nil, nil
	return requests, console
}

func (tab *Tab) check() {
	requests, console := tab.Trouble()
	for _, u := range requests {
		tab.t.Errorf("the page asks for %s", u)
	}
	for _, c := range console {
		tab.t.Errorf("the page complains: %s", c)
	}
}

// describe is an exception in words.
func describe(e *runtime.ExceptionDetails) string {
	if e.Exception != nil {
		return e.Text + " " + e.Exception.Description
	}
	return e.Text
}

// fail ends the test with what the page has said.
func (tab *Tab) fail(what string, err error) {
	tab.t.Helper()
	requests, console := tab.Trouble()
	tab.t.Fatalf("%s: %v (console %q, requests %q)", what, err, console, requests)
}

// Run performs actions of chromedp on the page.
func (tab *Tab) Run(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	if err := chromedp.Do(tab.ctx, actions...); err != nil {
		tab.fail("act on the page", err)
	}
}

// Eval evaluates a JavaScript expression, or awaits the promise that it is, and
// returns its value, which must go through JSON into a T.
func Eval[T any](tab *Tab, expression string) T {
	tab.t.Helper()
	yes := true
	r := do(tab, runtime.Evaluate, runtime.EvaluateParams{
		Expression:   "(async () => JSON.stringify(await (" + expression + ") ?? null))()",
		AwaitPromise: &yes, ReturnByValue: &yes, UserGesture: &yes,
	})
	if r.ExceptionDetails != nil {
		tab.fail(expression, errors.New(describe(r.ExceptionDetails)))
	}
	var text string
	var v T
	if err := json.Unmarshal(r.Result.Value, &text); err != nil {
		tab.t.Fatalf("%s is %s: %v", expression, r.Result.Value, err)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tab.t.Fatalf("%s is %s: %v", expression, text, err)
	}
	return v
}

// Wait waits until a JavaScript expression is true.
func (tab *Tab) Wait(expression string) {
	tab.t.Helper()
	Eval[bool](tab, fmt.Sprintf(`new Promise((done, fail) => {
		const look = () => { try { if (%s) done(true); else setTimeout(look, 10); } catch (e) { fail(e); } };
		look();
	})`, expression))
}

// Text returns the text, as it is seen, of the first element that a CSS
// selector matches; it fails the test if there is none.
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	return Eval[string](tab, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// Click clicks the first element that a CSS selector matches.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	tab.Run(chromedp.Click(chromedp.CSS(selector)))
}

// Press sends keys to what has the focus; package chromedp/kb names those that
// are no letters.
func (tab *Tab) Press(keys string) {
	tab.t.Helper()
	tab.Run(chromedp.KeyEvent(keys))
}

// Hover moves the pointer to a place in the element that a CSS selector
// matches; x and y go from 0 to 1 across it.
func (tab *Tab) Hover(selector string, x, y float64) {
	tab.t.Helper()
	at := Eval[[2]float64](tab, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect();
		return [r.left + r.width * %g, r.top + r.height * %g];
	})()`, selector, x, y))
	tab.Run(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
}

// Screenshot writes the whole page as name.png into the folder that the
// environment names; it does nothing where it names none.
func (tab *Tab) Screenshot(name string) {
	tab.t.Helper()
	tab.shoot(name, chromedp.FullScreenshot(100))
}

// ScreenshotOf does the same with the first element that a CSS selector matches.
func (tab *Tab) ScreenshotOf(selector, name string) {
	tab.t.Helper()
	tab.shoot(name, chromedp.Screenshot(chromedp.CSS(selector)))
}

// ScreenshotOfWindow does the same with what the window shows.
func (tab *Tab) ScreenshotOfWindow(name string) {
	tab.t.Helper()
	tab.shoot(name, chromedp.CaptureScreenshot())
}

func (tab *Tab) shoot(name string, take chromedp.Action[[]byte]) {
	tab.t.Helper()
	folder := os.Getenv(Variable)
	if folder == "" {
		return
	}
	png, err := chromedp.Run(tab.ctx, take)
	if err != nil {
		tab.fail("screenshot", err)
	}
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, name+".png"), png,
		0o644)); err != nil {
		tab.t.Fatal(err)
	}
}

// FitsWidth fails the test if the page is wider than its window, so that
// it would have to be pushed sideways.
func (tab *Tab) FitsWidth() {
	tab.t.Helper()
	size := Eval[[2]int](tab, "[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
	if size[0] > size[1] {
		tab.t.Errorf("the page is %d pixels wide in a window of %d", size[0], size[1])
	}
}
