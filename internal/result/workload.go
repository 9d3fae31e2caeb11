package result

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Request is what a pattern moves, as its metadata says: the cache of a request, of a batch of requests, or a part.
type Request struct {
	Name   string // request 3, or requests 3-5, layers 0 to 9; empty where the metadata does not say which
	Tokens int64  // of input, of all its requests; 0 where it is not known
	Bytes  int64  // of caches and states, before they were scaled; 0 where it is not known
	Moved  int64  // the same with the copies that several ranks receive, where the metadata says so, else Bytes
}

// Request reads the metadata that `perigee matgen` writes.
func (p *Pattern) Request() (r Request) {
	read := func(key string) int64 { n, _ := whole(p.Metadata[key]); return n }
	r.Tokens, r.Bytes = read("isl"), read("kv_bytes")+read("state_bytes")
	r.Moved = cmp.Or(read("moved_bytes"), r.Bytes)
	first, ok := whole(p.Metadata["request"])
	if !ok {
		return r
	}
	r.Name = fmt.Sprint("request ", first)
	if n := read("requests"); n > 1 {
		r.Name = fmt.Sprintf("requests %d-%d", first, first+n-1)
	}
	for _, part := range []string{"layers", "tokens"} {
		if text, ok := p.Metadata[part].(string); ok {
			r.Name += ", " + part + " " + text
		}
	}
	if p.Metadata["kind"] == "states" {
		r.Name += ", states"
	}
	return r
}

// whole reads a number of 0 or more without a fraction.
func whole(v any) (int64, bool) {
	f := number(v)
	if !(f >= 0 && f < 1<<53) || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// number reads a number as a script or JSON gives it; NaN is none.
func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return math.NaN()
}

// Terms are what the configuration says of the traffic of a pattern.
type Terms struct {
	Class  string  // empty: none
	SLONS  float64 // within which a run is to end, in nanoseconds; NaN without one
	Weight float64 // of the class; 1 where it is not said
}

// Terms reads them from the metadata.
func (p *Pattern) Terms() Terms {
	class, _ := p.Metadata["class"].(string)
	t := Terms{class, number(p.Metadata["slo_ms"]) * 1e6, number(p.Metadata["weight"])}
	if math.IsNaN(t.Weight) {
		t.Weight = 1
	}
	return t
}

// DescribeWorkload says in one line what the patterns are the traffic of: model, workers, requests, scale of the bytes.
// generator is the block of that name that `perigee matgen` writes. Requests, workers and bytes are counted in what is
// played; what contradicts the block is left out. Empty: the patterns are of no requests.
func (d *Document) DescribeWorkload(generator map[string]any) string {
	options, _ := generator["options"].(map[string]any)
	model, _ := generator["model_figures"].(map[string]any)
	played := countRequests(d)
	if played.patterns == 0 || options == nil {
		return ""
	}
	name, _ := model["name"].(string)
	name = llama.ReplaceAllString(name, "Llama $1 ${2}B")
	if dtype, ok := model["kv_cache_dtype"].(string); ok {
		name += " in " + dtype
	}
	by, told := model["kv_cache_dtype_by"].(string)
	if told {
		name += " (" + by + ")"
	}
	copies, _ := model["copies"].(string)
	old := !told && options["kv_replicas"] == "full"
	parts := []string{name, layout(d, options), played.text(), copies, played.scale(old)}
	return strings.Join(slices.DeleteFunc(parts, func(text string) bool { return text == "" }), ", ")
}

var llama = regexp.MustCompile(`^llama(\d+(?:\.\d+)?)-(\d+)b$`)

// layout says which workers of both sides have traffic, as in 2 prefill TP4 -> 1 decode TP8. Empty: the matrices are
// not for such sides.
func layout(d *Document, options map[string]any) string {
	read := func(key string) int64 { n, _ := whole(options[key]); return min(max(n, 1), 1<<20) }
	played := map[int]bool{}
	for _, p := range d.Patterns {
		played[p.Matrix] = true
	}
	var sides []string
	first := int64(0) // rank of the side
	for end, name := range []string{"prefill", "decode"} {
		ranks, size, words := read("num_"+name+"_nodes")*read("ppn"), int64(1), ""
		for _, kind := range []string{"tp", "pp", "cp", "dp"} {
			n := read(name + "_" + kind)
			if layers, ok := options[name+"_pp_layers"].([]any); ok && kind == "pp" {
				n = int64(max(len(layers), 1))
			}
			if kind != "dp" { // attention groups are parts of a worker
				size *= n
			}
			if kind == "tp" || n > 1 {
				words += fmt.Sprintf(" %s%d", strings.ToUpper(kind), n)
			}
		}
		workers := map[int64]bool{}
		for m := range played {
			for _, c := range d.Matrices[m].Cells {
				if c[end] < first || c[end] >= first+ranks || size > ranks {
					return ""
				}
				workers[(c[end]-first)/size] = true
			}
		}
		text := fmt.Sprint(len(workers))
		if all := ranks / size; all > int64(len(workers)) {
			text += fmt.Sprint(" of ", all)
		}
		sides = append(sides, text+" "+name+words)
		first += ranks
	}
	if first != int64(d.World.Size) {
		return ""
	}
	return strings.Join(sides, " -> ")
}

// What are the lines that come first in reports: how the user calls the run, and of what requests it is the traffic.
func (d *Document) What() []string {
	return slices.DeleteFunc([]string{d.Title, d.Workload}, func(text string) bool { return text == "" })
}

// requests sums up the patterns of a workload.
type requests struct {
	patterns, others   int64 // with a request, without one
	parts              int64 // that the batches have, played or not
	batches, requests  int64
	least, most        int64   // tokens of a batch
	bytes, caches      float64 // of the matrices, and of what they are the traffic of, with its copies
	smallest, greatest float64 // bytes / caches of a pattern
}

func countRequests(d *Document) requests {
	s := requests{least: math.MaxInt64, smallest: math.Inf(1)}
	seen := map[int64]bool{}
	for i := range d.Patterns {
		p := &d.Patterns[i]
		r, bytes := p.Request(), float64(d.Matrices[p.Matrix].Bytes)
		n, _ := whole(p.Metadata["requests"])
		if n == 0 || r.Tokens == 0 || r.Bytes == 0 {
			s.others++
			continue
		}
		s.patterns++
		s.bytes, s.caches = s.bytes+bytes, s.caches+float64(r.Moved)
		s.smallest, s.greatest = min(s.smallest, bytes/float64(r.Moved)), max(s.greatest, bytes/float64(r.Moved))
		batch, cut := whole(p.Metadata["batch"])
		if cut && seen[batch] {
			continue
		}
		seen[batch] = seen[batch] || cut
		parts, _ := whole(p.Metadata["parts"])
		s.parts, s.batches, s.requests = s.parts+max(parts, 1), s.batches+1, s.requests+n
		s.least, s.most = min(s.least, r.Tokens), max(s.most, r.Tokens)
	}
	return s
}

// text says how many requests of how many tokens are played.
func (s *requests) text() string {
	text := count(s.requests, "request", "s")
	if s.requests > s.batches {
		text += " in " + count(s.batches, "batch", "es")
	}
	text += " of " + thousands(s.least)
	if s.most > s.least {
		text += " to " + thousands(s.most)
	}
	text += " tokens"
	if s.patterns != s.parts {
		text += fmt.Sprintf(" in %d of their %s", s.patterns, count(s.parts, "pattern", "s"))
	} else if s.parts > s.batches {
		text += fmt.Sprintf(" in %d patterns", s.parts)
	}
	if s.others > 0 {
		text += " and " + count(s.others, "other pattern", "s")
	}
	return text
}

// scale says how the bytes that are played stand to those of the caches; empty if they are the same. copies: the bytes
// are of copies, too, in files from before they were counted apart.
func (s *requests) scale(copies bool) string {
	bytes := "bytes"
	if copies {
		bytes = "bytes with copies"
	}
	const rounding = 0.01 // of a scaled matrix, to whole bytes
	ratio := s.bytes / s.caches
	part := math.Round(1 / ratio)
	switch {
	case s.greatest > s.smallest*(1+2*rounding):
		return fmt.Sprintf("%s %s to %s times those of the caches", bytes, digits(s.smallest), digits(s.greatest))
	case math.Abs(ratio-1) < rounding:
		return ""
	case part > 1 && math.Abs(part*ratio-1) < rounding:
		return bytes + " at 1/" + thousands(int64(part))
	}
	return bytes + " " + digits(ratio) + " times those of the caches"
}

// count writes how many there are of a thing, whose plural has an ending.
func count(n int64, thing, ending string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprint(n, " ", thing, ending)
}

func digits(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// thousands writes a number, from five digits on with commas.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	if len(text) < 5 {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
