package result

// Longer reports whether a value, as JSON gives it, takes more than most bytes as text. It looks at no more of it than
// it must. What a stranger's result holds may be millions of values, and their text, in the copies that showing it
// takes, many times as much as they are.
func Longer(v any, most int) bool { return rest(v, most) < 0 }

// rest is how many of the bytes are left when a value has been written, below zero where it does not fit.
func rest(v any, left int) int {
	const (
		number = 24 // the longest
		sign   = 6  // of a letter as JSON, at most
	)
	switch v := v.(type) {
	case string:
		left -= sign*len(v) + 2
	case []any:
		left -= 2
		for _, element := range v {
			if left = rest(element, left-1); left < 0 {
				break
			}
		}
	case []string:
		for _, element := range v {
			if left = rest(element, left-1); left < 0 {
				break
			}
		}
	case map[string]any:
		left -= 2
		for key, member := range v {
			if left = rest(key, left-2); left < 0 {
				break
			}
			if left = rest(member, left); left < 0 {
				break
			}
		}
	default:
		left -= number
	}
	return left
}
