package truth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// network is a few hosts on one switch. A host is a set of namespaces: what its ranks share with those of other hosts
// is the network and the disk. It needs root, unshare, nsenter, ip and tc. It is gone with the processes that hold it.
type network struct {
	env     []string
	fabric  *host // holds the switch
	hosts   []*host
	cleanup []func()
}

type host struct {
	number, holder int // holder is the first process of the namespaces
}

// link is what a host receives: its rate, shared out fairly between senders.
const (
	linkRate  = "400mbit"
	linkBurst = "64k" // the kernel hands over segments of up to 64 KiB at once
)

// newNetwork makes hosts with addresses 10.78.0.N, N from 1.
func newNetwork(hosts int, env []string) (n *network, err error) {
	n = &network{env: env}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.fabric, err = n.add(0); err != nil {
		return n, err
	}
	if err := n.fabric.in("ip", "link add bridge type bridge mcast_snooping 0", "link set bridge up"); err != nil {
		return n, err
	}
	for i := 1; i <= hosts; i++ {
		h, err := n.add(i)
		if err != nil {
			return n, err
		}
		n.hosts = append(n.hosts, h)
		err = n.fabric.in("ip", fmt.Sprintf("link add port%d type veth peer name eth0 netns %d", i, h.holder),
			fmt.Sprintf("link set port%d master bridge up", i))
		if err == nil {
			err = h.in("ip", "link set eth0 up", fmt.Sprintf("addr add 10.78.0.%d/24 dev eth0", i))
		}
		if err != nil {
			return n, err
		}
	}
	for i := range n.hosts {
		if err := n.limit(i + 1); err != nil {
			return n, err
		}
	}
	return n, nil
}

// add makes the namespaces of a host.
func (n *network) add(number int) (*host, error) {
	// BBR, the default of some distributions, sends at the rate that it saw before, which makes flows that had the link
	// alone unequal at first. A window that begins anew after each pause would be part of what a transfer takes.
	const life = `mount -t tmpfs tmpfs /dev/shm && hostname "$0" && ip link set lo up &&
		echo reno >/proc/sys/net/ipv4/tcp_congestion_control &&
		echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle && echo ready && exec cat`
	cmd := exec.Command("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child",
		"--mount-proc", "sh", "-c", life, fmt.Sprint("truth", number))
	cmd.Env = n.env
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	n.cleanup = append(n.cleanup, func() {
		stdin.Close()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		return nil, fmt.Errorf("make namespaces: got %q, %v, %s: it needs root (CAP_SYS_ADMIN)", line, err, &complaints)
	}
	go io.Copy(io.Discard, stdout)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	holder, err := strconv.Atoi(strings.TrimSpace(string(children)))
	return &host{number, holder}, err
}

func (n *network) close() {
	for _, f := range n.cleanup {
		f()
	}
	n.cleanup = nil
}

// in runs a command of the network in the host's namespace, once for each line of words.
func (h *host) in(command string, lines ...string) error {
	for _, line := range lines {
		words := append([]string{"--target", strconv.Itoa(h.holder), "--net", command}, strings.Fields(line)...)
		if out, err := exec.Command("nsenter", words...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", command, line, err, out)
		}
	}
	return nil
}

// limit bounds what a host receives. Each sender has its own class, and what all want is shared out evenly between
// those that send: two flows in a plain queue need not get equal parts.
func (n *network) limit(to int) error {
	port := fmt.Sprint("port", to)
	lines := []string{
		"qdisc add dev " + port + " root handle 1: htb default 99",
		fmt.Sprintf("class add dev %s parent 1: classid 1:1 htb rate %s ceil %s burst %s cburst %s quantum 16000", port,
			linkRate, linkRate, linkBurst, linkBurst),
		fmt.Sprintf("class add dev %s parent 1:1 classid 1:99 htb rate 1mbit ceil %s quantum 16000", port, linkRate),
	}
	for from := 1; from <= len(n.hosts); from++ {
		lines = append(lines,
			fmt.Sprintf("class add dev %s parent 1:1 classid 1:%d htb rate 1mbit ceil %s burst %s cburst %s quantum 16000",
				port, 9+from, linkRate, linkBurst, linkBurst),
			fmt.Sprintf("filter add dev %s parent 1: protocol ip prio 1 u32 match ip src 10.78.0.%d flowid 1:%d", port, from,
				9+from))
	}
	if err := n.fabric.in("tc", lines...); err != nil {
		return fmt.Errorf("%w: %w", ErrKernel, err)
	}
	return nil
}

// ErrKernel is the error where links cannot be limited.
var ErrKernel = errors.New("this kernel cannot shape traffic (htb, u32)")

// enter returns the words before a command that is to run on the host.
func (h *host) enter(folder string) []string {
	return []string{"nsenter", "--target", strconv.Itoa(h.holder), "--mount", "--uts", "--ipc", "--net", "--pid",
		"--wdns=" + folder}
}
