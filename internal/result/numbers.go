package result

import "encoding/json"

// Numbers is a list of finite numbers among the values of a document, in the place of a plain list, that only grows: a
// journal knows what is new in it without a look at the rest. In files it is a list like any other.
type Numbers struct{ list []float64 }

// Append adds numbers.
func (n *Numbers) Append(more ...float64) { n.list = append(n.list, more...) }

// Len is how many there are.
func (n *Numbers) Len() int { return len(n.list) }

// MarshalJSON writes a list.
func (n *Numbers) MarshalJSON() ([]byte, error) {
	if n.list == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(n.list)
}
