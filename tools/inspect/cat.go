package inspect

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/value"
	"perigee/internal/result"
)

type catCmd struct {
	File string `arg:"" help:"The result."`
	Path string `arg:"" optional:"" default:"." help:"Such as .patterns[0].name or .measurements[].latency_ns, or any other expression of jq; all of it without one."`
	Raw  bool   `short:"r" help:"Print a text without quotes."`
}

// Run prints what the expression gives, a line each.
func (c *catCmd) Run(s cli.Streams) error {
	code, err := compile(c.Path)
	if err != nil {
		return err
	}
	document, err := readAny(c.File)
	if err != nil {
		return err
	}
	to := &cli.Output{W: s.Out}
	var safe io.WriteCloser
	switch {
	case !c.Raw:
		safe = plaintext.JSONWriter(to)
	case cli.IsTerminal(s.Out):
		safe = plaintext.Writer(to)
	default:
		safe = asIs{to} // a file or a program gets a text as it is
	}
	out := bufio.NewWriter(safe)
	err = c.print(code, document, out)
	out.Flush() // what comes before an error
	safe.Close()
	return cmp.Or(to.Err, err)
}

// asIs passes on what is written.
type asIs struct{ io.Writer }

func (asIs) Close() error { return nil }

// compile reads an expression of jq. The error, of the kind Usage, says what is wrong with it.
func compile(text string) (*gojq.Code, error) {
	query, err := gojq.Parse(text)
	if err == nil {
		var code *gojq.Code
		if code, err = gojq.Compile(query); err == nil {
			return code, nil
		}
	}
	hint := "a path looks like .patterns[0].name or .measurements[].latency_ns; see docs/report.md"
	if q, err := gojq.Parse("." + text); err == nil && q.Term != nil && text != "" {
		hint = fmt.Sprintf("did you mean .%s? See docs/report.md", text)
	}
	return nil, fault.New(fault.Usage, "expression %.60q: %w", text, err).WithHint("%s", hint)
}

// readAny reads a result as jq knows it, with numbers as they are written.
func readAny(path string) (any, error) {
	r, err := result.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	d := json.NewDecoder(r)
	d.UseNumber()
	var document any
	if err = d.Decode(&document); err == nil {
		err = result.AtEnd(d)
	}
	return document, r.Fault(err)
}

// print writes values as they come. jq answers a path that leads nowhere with null: where there is nothing else, and no
// path leads to a null that is there, it is an error of the kind Input.
func (c *catCmd) print(code *gojq.Code, document any, out io.Writer) error {
	nulls := 0 // before the first value
	for values := code.Run(document); ; {
		v, ok := values.Next()
		if err, is := v.(error); is {
			if halt, is := errors.AsType[*gojq.HaltError](err); is && halt.Value() == nil {
				return nil
			}
			return fault.New(fault.Input, "result %s: %s: %w", c.File, c.Path, err)
		}
		if v == nil && ok && nulls >= 0 {
			nulls++
			continue
		}
		if !ok && nulls > 0 {
			if err := c.missing(document); err != nil {
				return err
			}
		}
		io.WriteString(out, strings.Repeat("null\n", max(nulls, 0)))
		if nulls = -1; !ok {
			return nil
		}
		text, raw := v.(string)
		if !raw || !c.Raw {
			b, err := gojq.Marshal(v)
			if err != nil {
				return err
			}
			text = string(b)
		}
		if _, err := io.WriteString(out, text+"\n"); err != nil {
			return err
		}
	}
}

// missing is that no path of the expression is there: where the first of them ends, and what is there. An expression
// that is no path has none.
func (c *catCmd) missing(document any) (first error) {
	code, err := compile("path(" + c.Path + ")")
	if err != nil {
		return nil
	}
	for paths := code.Run(document); ; {
		p, ok := paths.Next()
		path, is := p.([]any)
		if !ok || !is {
			return first
		}
		err := c.follow(document, path)
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
}

func (c *catCmd) follow(at any, path []any) error {
	said := ""
	for _, step := range path {
		before := cmp.Or(strings.TrimPrefix(said, "."), "the result")
		key, _ := step.(string)
		said += placeOf(step)
		switch v := at.(type) {
		case map[string]any:
			inner, there := v[key]
			if names := slices.Sorted(maps.Keys(v)); !there {
				const most = 30
				if len(names) > most {
					names = append(names[:most], "...")
				}
				meant := value.Suggestion(key, names)
				return fault.New(fault.Input, "result %s: there is no %s%s", c.File, said, meant).
					WithHint("%s has %s", before, strings.Join(names, ", "))
			}
			at = inner
		case []any:
			i, _ := gojq.ToInt(step)
			if i < 0 {
				i += len(v)
			}
			if i < 0 || i >= len(v) {
				return fault.New(fault.Input, "result %s: there is no %s: %s has %d elements", c.File, said, before, len(v))
			}
			at = v[i]
		default:
			return fault.New(fault.Input, "result %s: there is no %s: %s is null", c.File, said, before)
		}
	}
	return nil
}

var plainName = lazyre.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// placeOf writes a step of a path as jq reads it.
func placeOf(step any) string {
	if name, is := step.(string); is && plainName.Get().MatchString(name) {
		return "." + name
	}
	b, err := gojq.Marshal(step)
	if err != nil {
		return "[?]"
	}
	return "[" + string(b) + "]"
}
