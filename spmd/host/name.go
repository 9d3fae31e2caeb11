package host

import "os"

// Name is the name of this host, "unknown" where it has none.
func Name() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
