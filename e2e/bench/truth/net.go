package truth

import (
	"errors"
	"fmt"

	"perigee/e2e/internal/harness"
)

// network is a few hosts on one switch, whose links are limited. It needs tc, too.
type network struct {
	fabric *harness.NetworkHost // holds the switch
	hosts  []*harness.NetworkHost
}

// linkMbit is the rate of a link, shared out fairly between senders, and linkBurst what it sends at once: the kernel
// hands over segments of up to 64 KiB, and a bucket that is smaller cuts them, so that queues overflow.
const (
	linkMbit  = 400
	linkBurst = "128k"
)

// settled prepares a host. BBR, the default of some distributions, sends at the rate that it saw before,
// which makes flows that had the link alone unequal at first. A window that begins anew after each pause would be part
// of what a transfer takes.
const settled = `echo reno >/proc/sys/net/ipv4/tcp_congestion_control &&
	echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle && `

// newNetwork makes hosts with addresses 10.78.0.N, N from 1, and limits what they receive to so many Mbit/s, 0 for no
// limit.
func newNetwork(hosts int, env []string, mbit int) (n *network, err error) {
	n = &network{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.fabric, err = harness.NewNetworkHost("truth0", env, settled, nil); err != nil {
		return n, err
	}
	if err := n.fabric.Bridge(); err != nil {
		return n, err
	}
	for i := 1; i <= hosts; i++ {
		h, err := harness.NewNetworkHost(fmt.Sprint("truth", i), env, settled, nil)
		if err != nil {
			return n, err
		}
		n.hosts = append(n.hosts, h)
		if err := n.fabric.Plug(h, i, fmt.Sprintf("10.78.0.%d/24", i)); err != nil {
			return n, err
		}
	}
	for i := range n.hosts {
		if mbit == 0 {
			break
		}
		if err := n.limit(i+1, fmt.Sprintf("%dmbit", mbit)); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (n *network) close() {
	for _, h := range append(n.hosts, n.fabric) {
		if h != nil {
			h.Close()
		}
	}
	n.hosts, n.fabric = nil, nil
}

// limit bounds what a host receives: a token bucket, since a class of htb that lends its rate to others is no bound,
// two senders reached 500 to 700 Mbit/s of 400 after some minutes. Each sender has its own class in it, and these take
// turns: two flows in a plain queue need not get equal parts.
func (n *network) limit(to int, rate string) error {
	port := fmt.Sprint("port", to)
	class := "class add dev %s parent 2: classid 2:%d htb rate 10gbit quantum 16000" // more than there is
	lines := []string{
		fmt.Sprintf("qdisc add dev %s root handle 1: tbf rate %s burst %s limit 64m", port, rate, linkBurst),
		fmt.Sprintf("qdisc add dev %s parent 1:1 handle 2: htb default 99", port),
		fmt.Sprintf(class, port, 99),
	}
	for from := 1; from <= len(n.hosts); from++ {
		lines = append(lines, fmt.Sprintf(class, port, 9+from),
			fmt.Sprintf("filter add dev %s parent 2: protocol ip prio 1 u32 match ip src 10.78.0.%d flowid 2:%d", port,
				from, 9+from))
	}
	if err := n.fabric.Net("tc", lines...); err != nil {
		return fmt.Errorf("%w: %w", ErrKernel, err)
	}
	return nil
}

// ErrKernel is the error where links cannot be limited.
var ErrKernel = errors.New("this kernel cannot shape traffic (tbf, htb, u32)")
