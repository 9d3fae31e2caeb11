package launch

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"text/template"
	"text/template/parse"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/heap"
	"perigee/internal/plaintext"
)

func (d *Data) render(name, text string) (string, error) {
	return d.renderWithin(name, text, templateTime)
}

// renderShared renders a template within what those of other cases have left of the time. A shipped one takes none, and
// neither does one that is as short as they are.
func (d *Data) renderShared(name, text string, took *time.Duration) (string, error) {
	const free = 10 * time.Millisecond
	if took == nil || name == "command" || name == "trtllm" {
		return d.render(name, text)
	}
	if *took >= allTime {
		return "", fault.New(fault.Input, "job template: those of the cases before have taken more than %s", allTime).
			WithHint("name fewer cases, or make a template that takes less")
	}
	began := time.Now()
	defer func() { *took += max(0, time.Since(began)-free) }()
	return d.renderWithin(name, text, min(templateTime, allTime-*took))
}

func (d *Data) renderWithin(name, text string, limit time.Duration) (string, error) {
	if left.Load() {
		return "", fault.New(fault.Input, "job template: another one still runs that had to end")
	}
	made := new(budget)
	short := made.short
	functions := template.FuncMap{
		"quote": func(s string) (string, error) {
			if err := made.take(quoted * len(s)); err != nil {
				return "", err
			}
			return cli.Quote(s), nil
		},
		"join": func(list []string, between string) (string, error) {
			n := len(between) * len(list)
			for _, s := range list {
				n += len(s)
			}
			if err := made.take(n); err != nil {
				return "", err
			}
			return strings.Join(list, between), nil
		},
		"words": short(func(args ...any) string { return strings.Trim(fmt.Sprint(args...), "[]") }),
		"env": func(m map[string]string) (list []string, _ error) {
			for _, name := range slices.Sorted(maps.Keys(m)) {
				if err := made.take(len(name) + len(m[name]) + 1); err != nil {
					return nil, err
				}
				list = append(list, name+"="+m[name])
			}
			return list, nil
		},
		"add": func(a, b int) int { return a + b },
		"mul": func(a, b int) int { return a * b },

		"print": short(fmt.Sprint), "println": short(fmt.Sprintln), "html": short(template.HTMLEscaper),
		"js": short(template.JSEscaper), "urlquery": short(template.URLQueryEscaper),
		"printf": func(format string, args ...any) (string, error) {
			if strings.Count(strings.ReplaceAll(format, "%%", ""), "%") > mostVerbs {
				return "", fmt.Errorf("wanted a format with at most %d verbs", mostVerbs)
			}
			for i, a := range args {
				if s, ok := a.(fmt.Stringer); ok && !isScalar(reflect.ValueOf(a)) {
					args[i] = s.String()
					continue
				}
				if !isScalar(reflect.ValueOf(a)) { // a width is that of each element
					return "", fmt.Errorf("wanted a text, a number or a truth value as argument %d, got %T; words makes a text of a list", i+1, a)
				}
			}
			return short(func(args ...any) string { return fmt.Sprintf(format, args...) })(args...)
		},
	}
	t, err := template.New(filepath.Base(name)).Funcs(functions).Option("missingkey=error").ParseFS(shipped,
		"templates/common.tmpl")
	if err == nil {
		t, err = t.Parse(text)
	}
	if err != nil {
		return "", fault.New(fault.Input, "job template: %w", err)
	}
	if err := checkMethods(t); err != nil {
		return "", fault.New(fault.Input, "job template: %w", err).
			WithHint("a template takes the fields of the job, and texts by its functions")
	}
	if _, err := (nesting{t, map[string]int{}}).of(t.Name()); err != nil {
		return "", fault.New(fault.Input, "job template: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	interrupt(ctx, t)
	var b script
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		ended <- t.Execute(&b, d)
	}()
	stopped := heap.Watch(done, func(took time.Duration, grown func() int64) error {
		switch {
		case took > limit:
			return fmt.Errorf("%s has not ended after %s", name, limit)
		case grown() > mostHeap:
			runtime.GC() // what is no longer used does not count
			if grown() > mostHeap {
				return fmt.Errorf("%s has filled more than %d MiB of memory", name, mostHeap>>20)
			}
		}
		return nil
	})
	if stopped != nil {
		cancel(stopped)
		select {
		case <-done:
		case <-time.After(patience):
			left.Store(true)
		}
		err = stopped
	} else {
		err = <-ended
	}
	if err != nil {
		return "", fault.New(fault.Input, "job template: %w", err)
	}
	return b.text.String(), nil
}

// patience is how long a template that has to end may go on: a call in it, such as one of eq with long texts, is not
// interrupted. One that goes on longer is left to itself, and no other one begins.
const patience = time.Second

var left atomic.Bool

// interrupt has a template call a function again and again, which ends it with the cause when the context ends.
func interrupt(ctx context.Context, t *template.Template) {
	const tick = "tick"
	functions := template.FuncMap{tick: func() (string, error) { return "", context.Cause(ctx) }}
	call := template.Must(template.New(tick).Funcs(functions).Parse("{{" + tick + "}}")).Root.Nodes[0]
	t.Funcs(functions)
	for _, one := range t.Templates() {
		if one.Tree != nil {
			insert(one.Root, call)
		}
	}
}

// insert puts a node before each node of a list, and of those in it, and into empty ones.
func insert(list *parse.ListNode, call parse.Node) {
	if list == nil {
		return
	}
	if len(list.Nodes) == 0 {
		list.Nodes = []parse.Node{call}
		return
	}
	var nodes []parse.Node
	for _, n := range list.Nodes {
		nodes = append(nodes, call, n)
		switch n := n.(type) {
		case *parse.IfNode:
			insert(n.List, call)
			insert(n.ElseList, call)
		case *parse.RangeNode:
			insert(n.List, call)
			insert(n.ElseList, call)
		case *parse.WithNode:
			insert(n.List, call)
			insert(n.ElseList, call)
		}
	}
	list.Nodes = nodes
}

// allowed are the methods that a template may call, of those that its data has: none makes a text of any length, or
// takes long.
var allowed = []string{"Concurrencies", "Display", "FrontEnv", "GPUs", "Kind", "Known", "Mounts", "Nodes", "OwnLogs",
	"String", "TaskArguments", "UsesCommand", "Valid", "WorkerEnv", "World"}

// mostNested is how deep the parts of a template may lie within each other, those of the templates that it calls
// included: each level takes some of the stack.
const mostNested = 1000

// nesting finds how deep the parts of templates lie within each other.
type nesting struct {
	all   *template.Template
	known map[string]int // by name; -1 while it is looked at
}

// of is the depth of a template. One that calls itself is an error.
func (d nesting) of(name string) (int, error) {
	known, ok := d.known[name]
	if known < 0 {
		return 0, fmt.Errorf("%q calls itself", name)
	}
	one := d.all.Lookup(name)
	if ok || one == nil || one.Tree == nil {
		return known, nil
	}
	d.known[name] = -1
	depth, err := d.below(one.Root)
	if err == nil && depth > mostNested {
		err = fmt.Errorf("%q has parts that lie more than %d levels within each other", name, mostNested)
	}
	d.known[name] = depth
	return depth, err
}

// below is the depth of what lies in a part.
func (d nesting) below(n parse.Node) (depth int, err error) {
	branch := func(b *parse.BranchNode) (int, error) {
		then, err := d.below(b.List)
		if err != nil || b.ElseList == nil {
			return 1 + then, err
		}
		otherwise, err := d.below(b.ElseList)
		return 1 + max(then, otherwise), err
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, one := range n.Nodes {
			var deep int
			if deep, err = d.below(one); err != nil {
				return 0, err
			}
			depth = max(depth, deep)
		}
	case *parse.IfNode:
		return branch(&n.BranchNode)
	case *parse.RangeNode:
		return branch(&n.BranchNode)
	case *parse.WithNode:
		return branch(&n.BranchNode)
	case *parse.TemplateNode:
		depth, err = d.of(n.Name)
		return 1 + depth, err
	}
	return depth, err
}

// checkMethods refuses a template that names a method which is not allowed. Fields may have the names of allowed ones.
func checkMethods(t *template.Template) error {
	for _, one := range t.Templates() {
		if one.Tree == nil {
			continue
		}
		for _, name := range names(one.Root, nil) {
			if callable[name] && !slices.Contains(allowed, name) {
				return fmt.Errorf("%s calls the method %s; it may call %s", one.Name(), name,
					strings.Join(allowed, ", "))
			}
		}
	}
	return nil
}

// names lists the fields and methods that a part of a template names.
func names(n parse.Node, list []string) []string {
	branch := func(b *parse.BranchNode) []string {
		return names(b.ElseList, names(b.List, names(b.Pipe, list)))
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, one := range n.Nodes {
				list = names(one, list)
			}
		}
	case *parse.IfNode:
		list = branch(&n.BranchNode)
	case *parse.RangeNode:
		list = branch(&n.BranchNode)
	case *parse.WithNode:
		list = branch(&n.BranchNode)
	case *parse.ActionNode:
		list = names(n.Pipe, list)
	case *parse.TemplateNode:
		list = names(n.Pipe, list)
	case *parse.PipeNode:
		if n != nil {
			for _, c := range n.Cmds {
				list = names(c, list)
			}
		}
	case *parse.CommandNode:
		for _, arg := range n.Args {
			list = names(arg, list)
		}
	case *parse.ChainNode:
		list = append(names(n.Node, list), n.Field...)
	case *parse.FieldNode:
		list = append(list, n.Ident...)
	case *parse.VariableNode:
		list = append(list, n.Ident[1:]...)
	}
	return list
}

// callable are the methods of all that a template can come to from its data, and are no fields' names alone.
var callable = func() map[string]bool {
	methods, seen := map[string]bool{}, map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(x reflect.Type) {
		if seen[x] {
			return
		}
		seen[x] = true
		for _, y := range []reflect.Type{x, reflect.PointerTo(x)} {
			for i := range y.NumMethod() {
				m := y.Method(i)
				methods[m.Name] = true
				for j := range m.Type.NumOut() {
					walk(m.Type.Out(j))
				}
			}
		}
		switch x.Kind() {
		case reflect.Struct:
			for i := range x.NumField() {
				if x.Field(i).IsExported() {
					walk(x.Field(i).Type)
				}
			}
		case reflect.Map:
			walk(x.Key())
			walk(x.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(x.Elem())
		}
	}
	walk(reflect.TypeFor[*Data]())
	return methods
}()

// A template may be a stranger's, and --dry-run executes it. What bounds it besides the length of the script is the
// time, what the heap grows by, and what its functions take to make a text, and make in all: variables keep it, and
// templates that call themselves.
const (
	templateTime = 10 * time.Second
	allTime      = time.Minute // of all cases of a dry run
	mostHeap     = 128 << 20
	mostTemplate = 1 << 20 // a level of it takes a kilobyte of stack
	mostText     = 1 << 20
	mostVerbs    = 16 // each makes five megabytes at most
	mostMade     = 64 << 20
	quoted       = 5 // bytes that one becomes at most
)

// budget counts the bytes that the functions of a template have made.
type budget struct{ made int }

func (b *budget) take(n int) error {
	if b.made += n; b.made > mostMade {
		return fmt.Errorf("wanted functions that make at most %d MiB of text in all, got more", mostMade>>20)
	}
	return nil
}

// isScalar reports whether a value has no elements.
func isScalar(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Struct, reflect.Pointer, reflect.Interface:
		return false
	}
	return true
}

// scalarText is the length of the text of a number at most.
const scalarText = 24

// textOf is about the length of the text of a value and its elements, or more than most.
func textOf(v reflect.Value, most int) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && n <= most; i++ {
			n += 1 + textOf(v.Index(i), most)
		}
	case reflect.Map:
		for all := v.MapRange(); n <= most && all.Next(); {
			n += 2 + textOf(all.Key(), most) + textOf(all.Value(), most)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += 1 + textOf(v.Field(i), most)
		}
	case reflect.Interface:
		return textOf(v.Elem(), most)
	default: // also a pointer in something else: its text is an address
		return scalarText
	}
	return n
}

// short is a function that makes texts of what makes short ones only.
func (b *budget) short(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		n := 0
		for _, a := range args {
			v := reflect.ValueOf(a)
			if v.Kind() == reflect.Pointer {
				v = v.Elem()
			}
			n += textOf(v, mostText)
		}
		if n > mostText {
			return "", fmt.Errorf("wanted texts of at most %d bytes in all, got more", mostText)
		}
		text := f(args...)
		return text, b.take(len(text))
	}
}

// mostScript is how long a job script may be as --dry-run shows it. Slurm takes 4 MiB, unless max_script_size says
// more.
const mostScript = 16 << 20

// script is the text of a job script as it grows.
type script struct {
	text  bytes.Buffer
	shown int // length of the text when it is shown
}

func (s *script) Write(p []byte) (int, error) {
	if s.shown += plaintext.Len(p); s.shown > mostScript {
		return 0, fmt.Errorf("wanted a script of at most %d MiB, got a longer one (a control character counts as six)",
			mostScript>>20)
	}
	return s.text.Write(p)
}
