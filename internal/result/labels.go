package result

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee/internal/kit/fault"
)

// Labels distinguish the samples of a metric, such as {size=4096}.
type Labels map[string]string

const (
	// maxLabelSets bounds how many different labels the samples of a metric have together: labels are for grouping.
	maxLabelSets = 1024
	// maxLabelKeys bounds how many different keys the labels of all metrics have together: each is a column.
	maxLabelKeys = 256
	// maxLabels bounds the labels of a sample.
	maxLabels = 64
	// maxLabelText bounds a value in bytes.
	maxLabelText = 256
)

var (
	labelKey    = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*$`)
	labelNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// reservedLabels have another meaning in thresholds, or are columns of what is made from samples.
var reservedLabels = []string{"phase", "pattern", "rank", "peer", "block", "batch", "metric", "value", "time_ns"}

// LabelNumber is the value of a label that is a number: whole numbers have all their digits.
func LabelNumber(v float64) string {
	const exactBelow = 1 << 53
	if v == math.Trunc(v) && math.Abs(v) < exactBelow {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Check refuses keys that are no names or mean something else, and values that a threshold could not name.
func (l Labels) Check() error {
	if n := len(l); n > maxLabels {
		return fault.New(fault.Script, "a sample has %d labels, want at most %d", n, maxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(l)) {
		v := l[k]
		switch {
		case !labelKey.MatchString(k) || len(k) > MaxName:
			return fault.New(fault.Script, "the label %.40q: want at most %d letters, digits and _, with a letter in front", k, MaxName)
		case slices.Contains(reservedLabels, k):
			return fault.New(fault.Script, "the label %s: the name is taken; labels cannot be called %s", k,
				strings.Join(reservedLabels, ", "))
		case len(v) > maxLabelText || strings.ContainsFunc(v, unwritable) || !utf8.ValidString(v):
			return fault.New(fault.Script,
				"the label %s is %.40q: want at most %d bytes of UTF-8 without quotes and control characters", k, v, maxLabelText)
		}
	}
	return nil
}

// unwritable reports whether a text of the grammar of thresholds has no such character.
func unwritable(r rune) bool { return r == '"' || r < ' ' || r == 0x7f }

// String writes labels as a threshold has them, and nothing for none.
func (l Labels) String() string {
	if len(l) == 0 {
		return ""
	}
	parts := make([]string, 0, len(l))
	for _, k := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, LabelText(k, l[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// LabelValue is the number that a label is, if it is one as [LabelNumber] writes it.
func LabelValue(text string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && labelNumber.MatchString(text) && LabelNumber(v) == text
}

// LabelText is one label as a threshold has it: key=4096 or key="text".
func LabelText(key, value string) string {
	if _, ok := LabelValue(value); ok {
		return key + "=" + value
	}
	return fmt.Sprintf(`%s="%s"`, key, value)
}

// AddLabelled is AddSample for a sample with labels. The error says that the metric has too many different ones.
func (d *Document) AddLabelled(name string, labels Labels, value float64, timeNS int64) error {
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if m.Name != name {
			continue
		}
		set, err := d.set(m, labels)
		if err != nil {
			return err
		}
		if set >= 0 && m.Labels == nil {
			m.Labels = slices.Repeat([]int{-1}, len(m.Values))
		}
		if m.Labels != nil {
			m.Labels = append(m.Labels, set)
		}
		m.Values, m.TimesNS = append(m.Values, value), append(m.TimesNS, timeNS)
	}
	return nil
}

// set is the index of labels among those of the metric; -1 for none.
func (d *Document) set(m *Metric, labels Labels) (int, error) {
	if len(labels) == 0 {
		return -1, nil
	}
	for i := len(m.LabelSets) - 1; i >= 0; i-- { // most samples have the labels of the one before
		if maps.Equal(m.LabelSets[i], labels) {
			return i, nil
		}
	}
	if len(m.LabelSets) == maxLabelSets {
		return 0, fault.New(fault.Script, "metric %s: the sample %s has the %dth different labels, want at most %d",
			m.Name, labels, maxLabelSets+1, maxLabelSets).
			WithHint("labels are for groups of samples, such as sizes; what differs from sample to sample is another metric")
	}
	if err := d.addKeys(labels); err != nil {
		return 0, fault.New(fault.Script, "metric %s: the sample %.80s: %w", m.Name, labels, err).
			WithHint("a key is what samples differ in, such as size; what differs from sample to sample is its value")
	}
	m.LabelSets = append(m.LabelSets, labels)
	return len(m.LabelSets) - 1, nil
}

// addKeys notes the keys of labels that the document has, and refuses too many.
func (d *Document) addKeys(labels Labels) error {
	if d.labelKeys == nil {
		d.labelKeys = map[string]bool{}
	}
	for k := range labels {
		if !d.labelKeys[k] && len(d.labelKeys) == maxLabelKeys {
			return fmt.Errorf("labels have more than %d different keys", maxLabelKeys)
		}
		d.labelKeys[k] = true
	}
	return nil
}

// LabelsOf are those of a sample; nil for none.
func (m *Metric) LabelsOf(sample int) Labels {
	if m.Labels == nil || m.Labels[sample] < 0 {
		return nil
	}
	return m.LabelSets[m.Labels[sample]]
}

// Group is the samples of a metric that have the same labels.
type Group struct {
	Labels Labels // nil for samples without labels
	Values []float64
}

// Groups divides the samples of a metric by their labels, those without labels first. A metric without samples has
// one group, which is empty.
func (m *Metric) Groups() []Group {
	groups := make([]Group, len(m.LabelSets)+1)
	for i, set := range m.LabelSets {
		groups[i+1].Labels = set
	}
	for i, v := range m.Values {
		g := &groups[0]
		if m.Labels != nil {
			g = &groups[m.Labels[i]+1]
		}
		g.Values = append(g.Values, v)
	}
	if len(groups) > 1 && len(groups[0].Values) == 0 {
		return groups[1:]
	}
	return groups
}
