package boot

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"perigee/internal/kit/fault"
	"perigee/spmd/host"
)

// EnvIface chooses the addresses under which the ranks of this host can be
// reached: the name of an interface, an address, or a network such as
// 10.0.0.0/8 or fd00::/64.
const EnvIface = "PERIGEE_IFACE"

func ifaceOf(env Environ) string {
	s, _ := env(EnvIface)
	return s
}

// hostAddress is an address of this host.
type hostAddress struct {
	iface string
	ip    netip.Addr
}

// ownAddresses lists the addresses of all interfaces that are up.
func ownAddresses() ([]hostAddress, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []hostAddress
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					all = append(all, hostAddress{i.Name, ip.Unmap()})
				}
			}
		}
	}
	return all, nil
}

// usable reports whether a peer can use an address as it is written: one that
// is only valid on its link would need the name of the peer's interface.
func (a hostAddress) usable() bool {
	return !a.ip.IsLinkLocalUnicast() && !a.ip.IsMulticast() && !a.ip.IsUnspecified()
}

// virtualPrefixes begin the names of interfaces that lead to containers and
// virtual machines on this host, not to other hosts.
var virtualPrefixes = []string{"docker", "virbr", "br-", "veth", "cni", "flannel", "cali", "podman", "lxc", "lxd",
	"vnet", "tap", "kube"}

// class orders addresses by how likely another host can reach them.
func (a hostAddress) class() int {
	switch {
	case a.ip.IsLoopback():
		return 2
	case slices.ContainsFunc(virtualPrefixes, func(p string) bool { return strings.HasPrefix(a.iface, p) }):
		return 1
	}
	return 0
}

// orderAddresses sorts by class, then IPv4 before IPv6, then as the system
// lists them. Loopback addresses are left out if there is anything else.
func orderAddresses(all []hostAddress) []string {
	sorted := slices.DeleteFunc(slices.Clone(all), func(a hostAddress) bool { return !a.usable() })
	slices.SortStableFunc(sorted, func(a, b hostAddress) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(a.ip.BitLen(), b.ip.BitLen()))
	})
	var ips []string
	for _, a := range sorted {
		if a.ip.IsLoopback() && len(ips) > 0 && loopback(ips[0]) == "" {
			break
		}
		ips = append(ips, a.ip.String())
	}
	return ips
}

// choose keeps the addresses that a value of EnvIface means, in order. All of
// 127.0.0.0/8 belongs to every host, listed or not.
func choose(all []hostAddress, iface string) []string {
	match := func(a hostAddress) bool { return a.iface == iface }
	if ip, err := netip.ParseAddr(iface); err == nil {
		if ip.IsLoopback() {
			return []string{ip.String()}
		}
		match = func(a hostAddress) bool { return a.ip == ip.Unmap() }
	} else if network, err := netip.ParsePrefix(iface); err == nil {
		match = func(a hostAddress) bool { return network.Contains(a.ip) }
	}
	return orderAddresses(slices.DeleteFunc(slices.Clone(all), func(a hostAddress) bool { return !match(a) }))
}

// hostIPs returns the addresses of this host for its peers, best first. With
// iface they are those; otherwise preferred, if it is not "", comes first.
func hostIPs(iface, preferred string) ([]string, error) {
	all, err := ownAddresses()
	if err != nil {
		return nil, fault.New(fault.Launch, "list the addresses of this host: %w", err)
	}
	if iface != "" {
		return chosenIPs(all, iface)
	}
	ips := orderAddresses(all)
	if preferred != "" {
		ips = slices.DeleteFunc(ips, func(ip string) bool { return ip == preferred })
		if loopback(preferred) != "" {
			ips = append(ips, preferred)
		} else {
			ips = append([]string{preferred}, ips...)
		}
	}
	if len(ips) == 0 {
		ips = []string{"127.0.0.1"}
	}
	return ips, nil
}

func chosenIPs(all []hostAddress, iface string) ([]string, error) {
	ips := choose(all, iface)
	if len(ips) == 0 {
		var have []string
		for _, a := range all {
			have = append(have, a.iface+" "+a.ip.String())
		}
		return nil, fault.New(fault.Launch, "%s on %s means no address of this host; it has %s", iface, host.Name(),
			strings.Join(have, ", ")).
			WithHint("--iface (%s) takes the name of an interface, an address, or a network such as 10.0.0.0/8",
				EnvIface)
	}
	return ips, nil
}

// localhost is the address of the loopback interface of this host.
var localhost = sync.OnceValue(func() string {
	own, _ := ownAddresses()
	return localhostOf(own)
})

// localhostOf is 127.0.0.1 unless there is ::1 alone.
func localhostOf(all []hostAddress) string {
	loops := func(bits int) bool {
		return slices.ContainsFunc(all, func(a hostAddress) bool { return a.ip.IsLoopback() && a.ip.BitLen() == bits })
	}
	if loops(128) && !loops(32) {
		return "::1"
	}
	return "127.0.0.1"
}

// loopback returns the IP to listen on if host is a name or an address of the
// loopback interface, else "".
func loopback(host string) string {
	if strings.EqualFold(host, "localhost") {
		return localhost()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return ip.String()
	}
	return ""
}

// listenFor returns the host on which to listen so that peers reach the
// addresses, and those that they do reach. Where one address will do, nothing
// else is opened: ranks that meet on the loopback interface show themselves to
// no network. "" is all interfaces.
func listenFor(ips []string) (listen string, reachable []string) {
	if len(ips) == 1 || len(ips) > 0 && loopback(ips[0]) != "" {
		return ips[0], ips[:1]
	}
	return "", ips
}
