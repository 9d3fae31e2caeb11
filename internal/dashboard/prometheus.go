package dashboard

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"
)

// writeText writes families in the text format of Prometheus, version 0.0.4: a help and a type for each metric, and a
// line for each series, labels in quotes. Families without series are left out.
func writeText(w io.Writer, run []label, list []family) error {
	out := bufio.NewWriter(w)
	for _, f := range list {
		if len(f.list) == 0 {
			continue
		}
		out.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + string(f.kind) + "\n")
		for _, s := range f.list {
			if s.times == nil {
				writeLine(out, f.name, number(s.value), run, s.labels)
				continue
			}
			var below uint64
			for i, n := range s.times.buckets {
				below += n
				le := math.Inf(1)
				if i < len(bounds) {
					le = bounds[i]
				}
				writeLine(out, f.name+"_bucket", number(float64(below)), run, s.labels, []label{{"le", number(le)}})
			}
			writeLine(out, f.name+"_sum", number(s.times.sum), run, s.labels)
			writeLine(out, f.name+"_count", number(float64(s.times.count)), run, s.labels)
		}
	}
	return out.Flush()
}

func writeLine(out *bufio.Writer, name, value string, lists ...[]label) {
	out.WriteString(name)
	sign := "{"
	for _, labels := range lists {
		for _, l := range labels {
			out.WriteString(sign + l.name + `="` + escape.Replace(strings.ToValidUTF8(l.value, "?")) + `"`)
			sign = ","
		}
	}
	out.WriteString("} " + value + "\n")
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
