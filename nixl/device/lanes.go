package device

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// asksFor returns the names in a value of UCX_NET_DEVICES; none stands for all devices, and for patterns and
// exceptions, which only UCX understands.
func asksFor(value string) []string {
	if value == "" || value == "all" || strings.ContainsAny(value, "^*?[") {
		return nil
	}
	names := strings.Split(value, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// Transports returns the names in a value of UCX_TLS, in small letters; except reports that all others are meant.
// None stands for all transports.
func Transports(value string) (names []string, except bool) {
	value, except = strings.CutPrefix(strings.ToLower(value), "^")
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }), except
}

// LackingHere is Lacking for this host and process; "" also where the kernel does not show the devices.
func LackingHere() string {
	value := os.Getenv("UCX_NET_DEVICES")
	if asksFor(value) == nil {
		return "" // without a look at the devices
	}
	nics, err := NICs("/sys")
	if err != nil {
		return ""
	}
	return Lacking("UCX_NET_DEVICES", nics, value)
}

// Lacking says which devices a value names, in the form of UCX_NET_DEVICES, that are not among a host's, and which
// these are; "" if none is lacking. source is what has the value.
func Lacking(source string, nics []NIC, value string) string {
	have := make([]string, len(nics))
	for i, n := range nics {
		have[i] = n.Name
	}
	lacking := slices.DeleteFunc(asksFor(value), func(name string) bool { return slices.Contains(have, name) })
	if len(lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("%s names %s, which this host lacks; it has %s", source, strings.Join(lacking, ", "),
		strings.Join(have, ", "))
}

// Lanes says which of a host's devices UCX can use between hosts: those that are up, with an address or an active port,
// and that a value of UCX_NET_DEVICES lets it use.
func Lanes(nics []NIC, value string) string {
	asked := asksFor(value)
	var up []string
	for _, n := range nics {
		usable := n.RDMA && n.State == "ACTIVE" || !n.RDMA && n.State != "down" && addressed(n.Name)
		if usable && (asked == nil || slices.Contains(asked, n.Name)) {
			up = append(up, n.Name)
		}
	}
	text := cmp.Or(strings.Join(up, ", "), "none")
	if value != "" {
		text += " (UCX_NET_DEVICES=" + value + ")"
	}
	return text
}

// addressed reports whether a network interface has an address.
func addressed(name string) bool {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	list, err := i.Addrs()
	return err == nil && len(list) > 0
}
