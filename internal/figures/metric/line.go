package metric

import (
	"perigee/internal/kit/expr"
	"perigee/internal/result"
)

// utilisation is the metric of how busy NICs were.
var utilisation = counted("nic_utilisation", expr.Neither,
	"bytes that it sent or received / what its speed allows; each NIC of known speed, direction and phase",
	[]string{"host", "nic", "direction"},
	func(d *result.Document, w *result.NetworkWindow, yield func(value float64, labels ...string)) {
		for _, n := range w.NICs {
			if sent, received, ok := d.Utilisation(*w, n); ok {
				yield(sent, n.Name, "sent")
				yield(received, n.Name, "received")
			}
		}
	})
