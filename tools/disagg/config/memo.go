package config

import (
	"fmt"
	"strings"

	"perigee/tools/disagg/pattern"
)

// memo keeps what takes long to find out and holds for several cases of one file: a sweep makes thousands of them.
type memo struct {
	patterns map[string]compiled // by their texts and names
	nearest  map[string]string   // what is said of unknown keys, by their paths
}

type compiled struct {
	pattern *pattern.Pattern
	err     error
}

// mostPatterns is how many a sweep may make of one: reading each may take 20 ms.
const mostPatterns = 100

func (m *memo) compile(source string, names []string) (*pattern.Pattern, error) {
	key := strings.Join(names, "\n") + "\n\n" + source
	c, known := m.patterns[key]
	switch {
	case known:
	case len(m.patterns) == mostPatterns:
		return nil, fmt.Errorf("wanted at most %d different patterns in the cases of a file, got more", mostPatterns)
	default:
		c.pattern, c.err = pattern.Compile(source, names)
		if m.patterns == nil {
			m.patterns = map[string]compiled{}
		}
		m.patterns[key] = c
	}
	return c.pattern, c.err
}

// suggestion is what find says of an unknown key.
func (m *memo) suggestion(path string, find func() string) string {
	text, known := m.nearest[path]
	if !known {
		text = find()
		if m.nearest == nil {
			m.nearest = map[string]string{}
		}
		m.nearest[path] = text
	}
	return text
}
