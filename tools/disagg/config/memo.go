package config

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"perigee/internal/secret"
	"perigee/tools/disagg/pattern"
)

// memo keeps what takes long to find out and holds for many cases: a sweep makes thousands of them, and files are
// alike.
type memo struct {
	mu       sync.Mutex
	patterns map[string]compiled // by their texts and names
	spent    time.Duration       // on these
	nearest  map[string]string   // what is said of unknown keys, by their paths
	texts    map[string]string   // what is shown of texts, by their hashes: they may be long
}

type compiled struct {
	pattern *pattern.Pattern
	err     error
}

// Reading a pattern of 8 KiB may take a second.
const (
	mostPatterns    = 1000
	mostSuggestions = 10_000 // that are kept, as are texts
)

// patternTime is a variable for tests.
var patternTime = 10 * time.Second

// compile reads a pattern, one at a time: it may take much memory.
func (m *memo) compile(source string, names []string) (*pattern.Pattern, error) {
	key := strings.Join(names, "\n") + "\n\n" + source
	m.mu.Lock()
	defer m.mu.Unlock()
	c, known := m.patterns[key]
	switch {
	case known:
	case len(m.patterns) == mostPatterns || m.spent > patternTime:
		return nil, fmt.Errorf("wanted at most %d different patterns in all files, which take %s at most, got more", mostPatterns,
			patternTime)
	default:
		began := time.Now()
		c.pattern, c.err = pattern.Compile(source, names)
		m.spent += time.Since(began)
		if m.patterns == nil {
			m.patterns = map[string]compiled{}
		}
		m.patterns[key] = c
	}
	return c.pattern, c.err
}

// suggestion is what find says of an unknown key.
func (m *memo) suggestion(path string, find func() string) string {
	return m.once(&m.nearest, path, find)
}

// masked is the beginning of a text, without secrets.
func (m *memo) masked(text string) string {
	hash := sha256.Sum256([]byte(text))
	return m.once(&m.texts, string(hash[:]), func() string { return clip(secret.Text(text)) })
}

// once is what find says of a key, which may take long.
func (m *memo) once(known *map[string]string, key string, find func() string) string {
	m.mu.Lock()
	text, isKnown := (*known)[key]
	m.mu.Unlock()
	if isKnown {
		return text
	}
	text = find()
	m.mu.Lock()
	defer m.mu.Unlock()
	if *known == nil || len(*known) == mostSuggestions {
		*known = map[string]string{}
	}
	(*known)[key] = text
	return text
}
