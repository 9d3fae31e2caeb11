package harness

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

// NetworkHost is a set of namespaces: mounts with its own /dev/shm, the name, System V memory, network and processes.
// Its processes share the disk with those of others, and the network that is built between hosts. It needs root,
// unshare, nsenter and ip.
//
// Nothing here has a name outside of the namespaces, so nothing can be left: a host is gone with the process that holds
// it, and that goes with the process that made it.
type NetworkHost struct {
	Holder int // its first process, as the machine counts
	end    func()
	clock  bool // has its own monotonic clock
}

// ErrNamespaces is the error where this process may not make namespaces.
var ErrNamespaces = errors.New("namespaces cannot be made: it needs root (CAP_SYS_ADMIN; docker run --privileged)")

// NewNetworkHost makes a host of a name. Its processes get the environment env. A shell runs setup in it first, which
// ends with "&& " or is empty. Its monotonic clock is ahead of the machine's by so many seconds, or the same if ahead
// is nil.
func NewNetworkHost(name string, env []string, setup string, ahead *int) (*NetworkHost, error) {
	words := []string{"--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if ahead != nil {
		words = append(words, "--time", "--monotonic", strconv.Itoa(*ahead))
	}
	life := `mount -t tmpfs tmpfs /dev/shm && hostname "$0" && ip link set lo up && ` + setup + `echo ready && exec cat`
	cmd := exec.Command("unshare", append(words, "sh", "-c", life, name)...)
	cmd.Env = env
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
	h := &NetworkHost{clock: ahead != nil, end: func() {
		stdin.Close() // the end of its input is the end of the host and of all that runs there
		cmd.Wait()
	}}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		h.Close()
		return nil, fmt.Errorf("%w: %q, %w, %s", ErrNamespaces, line, err, &complaints)
	}
	go io.Copy(io.Discard, stdout)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", cmd.Process.Pid))
	if err == nil {
		h.Holder, err = strconv.Atoi(strings.TrimSpace(string(children)))
	}
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("the first process of %s: %w", name, err)
	}
	return h, nil
}

// Close ends the host and all that runs there.
func (h *NetworkHost) Close() { h.end() }

// Enter returns the words before a command that is to run on the host, in a folder.
func (h *NetworkHost) Enter(folder string) []string {
	words := []string{"nsenter", "--target", strconv.Itoa(h.Holder), "--mount", "--uts", "--ipc", "--net", "--pid"}
	if h.clock {
		words = append(words, "--time")
	}
	return append(words, "--wdns="+folder)
}

// Net runs a command that changes the host's network, once for each line of words. Processes have the machine's numbers
// in it.
func (h *NetworkHost) Net(command string, lines ...string) error {
	for _, line := range lines {
		words := append([]string{"--target", strconv.Itoa(h.Holder), "--net", command}, strings.Fields(line)...)
		if out, err := exec.Command("nsenter", words...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", command, line, err, out)
		}
	}
	return nil
}

// Bridge makes the host a switch.
func (h *NetworkHost) Bridge() error {
	return h.Net("ip", "link add bridge type bridge mcast_snooping 0", "link set bridge up")
}

// Plug connects the eth0 of a host, with addresses such as "10.77.0.1/24", to a port of this one, which is a switch:
// port1 for the number 1.
func (h *NetworkHost) Plug(host *NetworkHost, number int, addresses ...string) error {
	err := h.Net("ip", fmt.Sprintf("link add port%d type veth peer name eth0 netns %d", number, host.Holder),
		fmt.Sprintf("link set port%d master bridge up", number))
	if err == nil {
		err = host.Net("ip", "link set eth0 up")
	}
	for _, a := range addresses {
		if err == nil {
			err = host.Net("ip", "addr add dev eth0 "+a)
		}
	}
	return err
}
