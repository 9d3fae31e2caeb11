package lua

import (
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// A script has so many bars open at a time, and more if it finishes them.
func TestOpenBarsAreBounded(t *testing.T) {
	p := playScript(t, 1, `return { run = function()
		for i = 1, 3000 do result.progress(1):finish() end
		local last
		for i = 1, 1000 do last = result.progress(1) end
		last:finish()
		result.progress(1, string.rep("x", 512))
		result.note("the 1000th")
		result.progress(1)
	end }`, nil)
	err := p.failed()
	must.Fail(t, err, fault.Script, "result.progress: 1001 bars are open, want at most 1000")
	if !strings.Contains(p.out[0], "the 1000th\n") {
		t.Errorf("refused too early: %s", p.out[0])
	}
}
