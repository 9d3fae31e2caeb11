package load

// Clocked is a load whose initiators agree on an instant before they run it, and start at it. Otherwise each starts
// when it has left the barrier before, one after the other.
type Clocked struct{ Load }

// Digest differs from that of the load alone, since ranks that wait for the others must not meet ranks that do not.
func (c Clocked) Digest(b []byte) []byte { return c.Load.Digest(append(b, "start clock, "...)) }
