package metric

import (
	"perigee/internal/expr"
	"perigee/internal/result"
)

// utilisation is the metric of how busy NICs were.
var utilisation = func() Def {
	labels := []string{"host", "nic", "direction"}
	d := perResult("nic_utilisation", "", expr.Neither,
		"bytes that it sent or received / what its speed allows; each NIC of known speed, direction and phase",
		func(v *view, yield func(Sample)) {
			if v.d.Network == nil {
				return
			}
			set := 0
			for _, w := range v.d.Network.Windows {
				for _, n := range w.NICs {
					sent, received, ok := v.d.Utilisation(w, n)
					for k, value := range []float64{sent, received} {
						if !ok {
							continue
						}
						s := ofPattern(-1, w.Phase, value)
						s.StartNS, s.EndNS, s.LabelSet = w.StartNS, w.EndNS, set
						s.Labels = result.Labels{labels[0]: v.d.World.Hosts[w.Host].Name, labels[1]: n.Name,
							labels[2]: [...]string{"sent", "received"}[k]}
						yield(s)
						set++
					}
				}
			}
		})
	d.labels = labels
	return d
}()
