package runs

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/lazyre"
)

// errSession stands for a report of sessions.
var errSession = errors.New("these are figures of whole sessions, not of requests")

// versionInName is what llm-d writes behind reportPrefix since version 0.2.
var versionInName = lazyre.New(`^_v[0-9.]+[0-9]`)

// stem is equal for the reports that one run left in a folder in several versions of the schema.
func stem(file string) string {
	name := strings.TrimPrefix(filepath.Base(file), reportPrefix)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	return filepath.Join(filepath.Dir(file), versionInName.ReplaceAllString(name, ""))
}

// newest leaves of one folder and stem only the reports of the newest schema, and notes that on them.
func newest(all []*Record) []*Record {
	best := map[string]string{}
	for _, r := range all {
		if !r.Transfer {
			best[stem(r.File)] = max(best[stem(r.File)], r.Schema)
		}
	}
	older := map[string]string{}
	all = slices.DeleteFunc(all, func(r *Record) bool {
		left := !r.Transfer && r.Schema < best[stem(r.File)]
		if left {
			older[stem(r.File)] = r.Schema
		}
		return left
	})
	for _, r := range all {
		switch schema := older[stem(r.File)]; schema {
		case "":
		case clientLog:
			r.Notes = append(r.Notes, "a log of the same name lies beside it; only this one counts")
		default:
			r.Notes = append(r.Notes, fmt.Sprintf("a report of the same run in version %s of the schema lies beside it; only this one, %s, counts",
				schema, r.Schema))
		}
	}
	return all
}

// failed reports whether no request of a run was answered. The generator nop sends none.
func (r *Record) failed() bool { return !r.Transfer && r.Harness != "nop" && r.Answered() <= 0 }

// unmeasured takes away the lengths and latencies of a run whose requests all failed: what generators write there,
// mostly 0, is not measured.
func (r *Record) unmeasured() {
	r.OutputLength = math.NaN()
	if r.InputLength == 0 {
		r.InputLength = math.NaN()
	}
	clear(r.Latency)
}

// adopt puts runs whose requests all failed, which have no lengths, into the scenario of the other runs of their
// workload: those with the same model, GPU and load. Where these are of several scenarios, the folder decides.
func adopt(all []*Record) {
	kin := func(r *Record) string { return fmt.Sprintf("%q %q %v", r.Model, r.GPU(), r.Workload) }
	healthy := map[string][]*Record{}
	for _, r := range all {
		if !r.failed() && !r.Transfer {
			healthy[kin(r)] = append(healthy[kin(r)], r)
		}
	}
	for _, r := range all {
		if !r.failed() {
			continue
		}
		note := "no request was answered"
		if o := r.sibling(healthy[kin(r)]); o != nil {
			r.ISL, r.OSL = o.ISL, o.OSL
			note += fmt.Sprintf("; ISL and OSL are those of the other runs of this workload: %s and %s", expr.Num(o.ISL), expr.Num(o.OSL))
		}
		r.Notes = append(r.Notes, note)
	}
}

// sibling returns a run of the only scenario that fits, nil if there is none.
func (r *Record) sibling(kin []*Record) *Record {
	kin = slices.DeleteFunc(slices.Clone(kin), func(o *Record) bool { return !math.IsNaN(r.ISL) && o.ISL != r.ISL })
	one := func(list []*Record) bool {
		return len(list) > 0 && !slices.ContainsFunc(list, func(o *Record) bool {
			return compareKeys(o.Key(), list[0].Key()) != 0
		})
	}
	if !one(kin) {
		kin = slices.DeleteFunc(kin, func(o *Record) bool { return o.Directory != r.Directory })
	}
	if !one(kin) {
		return nil
	}
	return kin[0]
}
