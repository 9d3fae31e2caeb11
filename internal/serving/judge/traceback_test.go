package judge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// The reason of a client that ends by an exception is the exception, however the lines of the log begin.
func TestTraceback(t *testing.T) {
	const head, places = "Traceback (most recent call last):\n", "  File \"bench.py\", line 9, in main\n    run()\n  File \"bench.py\", line 3, in run\n    raise X\n"
	labelled := func(label, text string) string {
		return label + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+label) + "\n"
	}
	for name, c := range map[string]struct{ log, want string }{
		"plain":     {"starting\n" + head + places + "ValueError: no dataset /d/x.json\n", "ValueError: no dataset /d/x.json"},
		"no words":  {head + places + "KeyboardInterrupt\n", "KeyboardInterrupt"},
		"dotted":    {head + places + "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host n1:8000\nbye: 7\n", "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host n1:8000"},
		"chained":   {head + places + "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n" + head + places + "RuntimeError: b\n", "RuntimeError: b"},
		"caused":    {head + places + "KeyError: 'a'\nof two lines\n\nThe above exception was the direct cause of the following exception:\n\n" + head + places + "RuntimeError: b\n", "RuntimeError: b"},
		"second":    {head + places + "KeyError: 'a'\n" + head + places + "RuntimeError: b\n", "KeyError: 'a'"},
		"srun":      {labelled("0: ", head+places+"KeyError: 'a'\n"), "KeyError: 'a'"},
		"many":      {labelled(" 7: ", head+places+"KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n"+head+places+"OSError: b\n"), "OSError: b"},
		"mpirun":    {labelled("[1,0]<stderr>:", head+places+"KeyError: 'a'\n"), "KeyError: 'a'"},
		"mixed":     {"0: " + head + "1: OSError: of another\n1: " + head + labelled("0: ", places) + "1: " + places + "0: KeyError: 'a'\n", "KeyError: 'a'"},
		"logger":    {"[01/02] [E] " + head + places + "KeyError: 'a'\n", "KeyError: 'a'"},
		"each line": {labelled("(Engine pid=7) ERROR 11-28 09:00:00 [core.py:7] ", head+places+"KeyError: 'a'\n"), "KeyError: 'a'"},
		"task's":    {"3: [E] " + head + labelled("3: ", places+"KeyError: 'a'\n"), "KeyError: 'a'"},
		"progress":  {head + places + " 12%|#   | 1/8 requests\nProcessed prompts: 12%\nKeyError: 'a'\n", "KeyError: 'a'"},
		"long":      {head + strings.Repeat(places, 20) + "RecursionError: maximum depth\n", "RecursionError: maximum depth"},
		"cut":       {head + places, "a traceback that is cut after File \"bench.py\", line 3, in run"},
		"cut early": {head, strings.TrimSpace(head)},
		"cut cause": {head + places + "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n" + head + places, "KeyError: 'a'"},
		"earlier":   {"error: the port is taken\n" + head + places + "KeyError: 'a'\n", "error: the port is taken"},
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "6_bench.log"), []byte(c.log), 0o600))
		d := Death{Part: "CLIENT", Code: 1, Log: "6_bench.log"}
		if d.quote(dir); d.Line != c.want {
			t.Errorf("%s: got %q, want %q", name, d.Line, c.want)
		}
		if len(d.Tail) == 0 || len(d.Tail) > tailLines {
			t.Errorf("%s: %d lines are shown", name, len(d.Tail))
		}
	}
}
