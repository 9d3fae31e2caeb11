package result

import "fmt"

// mostHostName is how long a host's name may be, as in the domain name system.
const mostHostName = 255

// checkNames makes sure that no name is too long. Those of measurements are looked at one by one.
func (d *Document) checkNames() (err error) {
	check := func(where string, i int, names ...string) {
		for _, name := range names {
			if err == nil && len(name) > MaxName {
				err = fmt.Errorf("%s[%d]: wanted names of at most %d bytes, got one of %d", where, i, MaxName, len(name))
			}
		}
	}
	if d.Engine != nil && len(d.Engine.Name) > MaxName {
		return fmt.Errorf("engine: wanted a name of at most %d bytes, got one of %d", MaxName, len(d.Engine.Name))
	}
	if len(d.Scenario.Name) > MaxName {
		return fmt.Errorf("scenario: wanted a name of at most %d bytes, got one of %d", MaxName, len(d.Scenario.Name))
	}
	for i, h := range d.World.Hosts {
		if err == nil && len(h.Name) > mostHostName {
			return fmt.Errorf("world.hosts[%d]: wanted a name of at most %d bytes, got one of %d", i, mostHostName, len(h.Name))
		}
	}
	for i, p := range d.Phases {
		check("phases", i, p.Name)
	}
	for i, p := range d.Patterns {
		check("patterns", i, p.Name, p.Kind, p.Mem, p.Op, p.Meet)
	}
	for i, s := range d.Storage {
		check("storage", i, s.Phase, s.Op)
	}
	for i, l := range d.Lanes {
		check("lanes", i, l.Phase, l.Op, l.Local, l.Remote)
	}
	for i, t := range d.Tables {
		check("tables", i, t.Columns...)
	}
	for i, m := range d.Metrics {
		check("metrics", i, m.Name)
	}
	return err
}
