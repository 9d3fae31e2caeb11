// Package jsonkeys finds keys that an object of JSON has twice. encoding/json takes the last of them in silence.
package jsonkeys

// Twice returns the first key that an object of a JSON text has for the second time, however deep, and its offset; ""
// for none. Keys are compared as they are written. The text must be valid.
func Twice(text []byte) (key string, at int) {
	var objects []map[string]bool // the keys of each object or list around; nil of a list
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			objects = append(objects, map[string]bool{})
		case '[':
			objects = append(objects, nil)
		case '}', ']':
			objects = objects[:max(0, len(objects)-1)]
		case '"':
			end := closing(text, i+1)
			if keys := last(objects); keys != nil && isKey(text, end) {
				name := string(text[i+1 : end])
				if keys[name] {
					return name, i
				}
				keys[name] = true
			}
			i = end
		}
	}
	return "", 0
}

func last(objects []map[string]bool) map[string]bool {
	if len(objects) == 0 {
		return nil
	}
	return objects[len(objects)-1]
}

// closing returns the offset of the quotation mark that ends a string.
func closing(text []byte, i int) int {
	for ; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i, len(text))
}

// isKey reports whether a colon follows on the string that ends at an offset.
func isKey(text []byte, end int) bool {
	for _, c := range text[min(end+1, len(text)):] {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}
