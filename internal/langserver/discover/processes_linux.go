package discover

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// processes returns the processes of this user that look like language servers and listen.
// Processes end at any time, so unreadable ones are skipped.
func processes(proc string) ([]Prospect, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var found []Prospect
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join(proc, entry.Name())
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte("csrf_token")) {
			continue
		}
		if info, err := os.Stat(dir); err != nil || !isOwn(info) {
			continue
		}
		if args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"); isLanguageServer(args) {
			p := fromCommand(pid, args)
			p.Home = homeOf(dir)
			p.process = true
			p.lsp, _ = strconv.Atoi(flagValue(args, "lsp_port"))
			found = append(found, p)
		}
	}
	return found, nil
}

// homeOf returns the home directory of a process.
func homeOf(dir string) string {
	environment, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if home, ok := bytes.CutPrefix(variable, []byte("HOME=")); ok {
			return string(home)
		}
	}
	return ""
}

// openPorts returns the ports of an announcement on which its process still listens. The file may
// be older than the process, which then may belong to another user.
func openPorts(p Prospect) []int {
	dir := filepath.Join(p.proc, strconv.Itoa(p.PID))
	info, err := os.Stat(dir)
	if err != nil || !isOwn(info) {
		return nil
	}
	return slices.DeleteFunc(listening(dir), func(port int) bool {
		return p.process && port == p.lsp || !p.process && !slices.Contains(p.ports, port)
	})
}

// listening returns the ports on which a process, given by its directory, accepts connections from
// 127.0.0.1.
func listening(dir string) []int {
	descriptors, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil
	}
	own := map[string]bool{}
	for _, d := range descriptors {
		if target, err := os.Readlink(filepath.Join(dir, "fd", d.Name())); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var ports []int
	for _, s := range listeningSockets() {
		if own[s.inode] && !slices.Contains(ports, s.port) {
			ports = append(ports, s.port)
		}
	}
	slices.Sort(ports)
	return ports
}

// listeningSockets returns all sockets that can be reached as 127.0.0.1. The tables cover this
// network namespace only, so they do not contain sockets of containers.
func listeningSockets() []socket {
	var sockets []socket
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // without IPv6 there is no second table
		}
		sockets = append(sockets, parseSockets(text)...)
	}
	return sockets
}

// A socket is a listening one that can be reached as 127.0.0.1.
type socket struct {
	port  int
	inode string
}

// parseSockets reads a table of the kernel: after a header, lines of fields, of which the second is
// the local address, the fourth the state and the tenth the inode.
func parseSockets(table []byte) []socket {
	const listen = "0A"
	var sockets []socket
	for line := range bytes.Lines(table) {
		if !bytes.Contains(line, []byte(" "+listen+" ")) {
			continue // most sockets are not listening
		}
		fields := strings.Fields(string(line))
		if len(fields) < 10 || fields[3] != listen {
			continue
		}
		address, port, _ := strings.Cut(fields[1], ":")
		number, err := strconv.ParseUint(port, 16, 16)
		if err != nil || number == 0 || !reachable(address) {
			continue
		}
		sockets = append(sockets, socket{int(number), fields[9]})
	}
	return sockets
}

// reachable reports whether connections to 127.0.0.1 arrive at an address, which is hexadecimal in
// words of the machine's byte order.
func reachable(address string) bool {
	raw, err := hex.DecodeString(address)
	if err != nil {
		return false
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		for word := range slices.Chunk(raw, 4) {
			slices.Reverse(word)
		}
	}
	switch fmt.Sprintf("%x", raw) {
	case "7f000001", "00000000", "00000000000000000000000000000000", "00000000000000000000ffff7f000001", "00000000000000000000ffff00000000":
		return true
	}
	return false
}
