package peeruser

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// userOf returns the user of a socket of this machine. A socket that was closed belongs to none.
func userOf(local, remote netip.AddrPort) (user int, found bool) {
	user, found, err := diagnose(local, remote)
	if err != nil { // some containers do not allow it
		return search(local, remote)
	}
	return user, found
}

// listenerOf returns the user of the socket that accepts connections to an address of this machine.
func listenerOf(address netip.AddrPort) (user int, found bool) {
	user, found, err := diagnose(address, anyOf(address))
	if err != nil {
		return searchListener(address)
	}
	return user, found
}

// anyOf returns the remote address of listeners in the family of an address.
func anyOf(address netip.AddrPort) netip.AddrPort {
	if address.Addr().Is6() {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

// searchListener looks for a listener at an address, or at all addresses, in the tables of the
// kernel.
func searchListener(address netip.AddrPort) (user int, found bool) {
	for _, at := range []netip.Addr{address.Addr(), netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		local := netip.AddrPortFrom(at, address.Port())
		if user, found := search(local, anyOf(local)); found {
			return user, true
		}
	}
	return 0, false
}

// diagnose asks the kernel for the user of a socket with the protocol of ss(8).
func diagnose(local, remote netip.AddrPort) (user int, found bool, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, false, err
	}
	const byFamily, header, request = 20, 16, 72
	m := make([]byte, request)
	binary.NativeEndian.PutUint32(m, request)
	binary.NativeEndian.PutUint16(m[4:], byFamily)
	binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST)
	m[header], m[header+1] = unix.AF_INET, unix.IPPROTO_TCP
	if local.Addr().Is6() {
		m[header] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(m[header+4:], 0xffffffff) // every state
	id := m[header+8:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:], local.Addr().AsSlice())
	copy(id[20:], remote.Addr().AsSlice())
	for i := 40; i < 48; i++ {
		id[i] = 0xff // no cookie
	}
	if err := uninterrupted(func() error { return unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) }); err != nil {
		return 0, false, err
	}
	answer, n := make([]byte, 4<<10), 0
	err = uninterrupted(func() (err error) {
		n, _, err = unix.Recvfrom(fd, answer, 0)
		return err
	})
	const userAt, inodeAt = header + 64, header + 68
	switch answer = answer[:max(n, 0)]; {
	case err != nil:
		return 0, false, err
	case n >= header+4 && binary.NativeEndian.Uint16(answer[4:]) == unix.NLMSG_ERROR:
		code := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[header:])))
		if code == unix.ENOENT {
			return 0, false, nil
		}
		return 0, false, code
	case n < inodeAt+4 || binary.NativeEndian.Uint16(answer[4:]) != byFamily:
		return 0, false, errors.New("unknown answer")
	}
	return int(binary.NativeEndian.Uint32(answer[userAt:])), binary.NativeEndian.Uint32(answer[inodeAt:]) != 0, nil
}

// uninterrupted calls a function again that a signal has interrupted, such as those with which Go
// preempts goroutines.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // system calls return exactly this value
			return err
		}
	}
}

// searching is held while a table is read: with many connections they are large.
var searching sync.Mutex

// search looks for the user of a socket in the tables of the kernel.
func search(local, remote netip.AddrPort) (user int, found bool) {
	searching.Lock()
	defer searching.Unlock()
	const tries = 3 // a table that changes while it is read may lack a line
	tables := map[string]string{"/proc/self/net/tcp": "", "/proc/self/net/tcp6": "0000000000000000" + hexWord([]byte{0, 0, 0xff, 0xff})}
	if local.Addr().Is6() {
		tables = map[string]string{"/proc/self/net/tcp6": ""}
	}
	for range tries {
		for table, prefix := range tables {
			if user, found := searchTable(table, prefix+hexAddress(local), prefix+hexAddress(remote)); found {
				return user, true
			}
		}
	}
	return 0, false
}

// searchTable reads a table: after a header, lines of fields, of which the second and the third are
// the addresses, the eighth is the user, and the tenth the inode, 0 for a socket that no process
// has open.
func searchTable(table, local, remote string) (user int, found bool) {
	f, err := os.Open(table)
	if err != nil {
		return 0, false // without IPv6 there is no second table
	}
	defer func() { _ = f.Close() }()
	wanted := []byte(" " + local + " " + remote + " ")
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if !bytes.Contains(lines.Bytes(), wanted) {
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[9] == "0" {
			continue
		}
		user, err := strconv.Atoi(fields[7])
		return user, err == nil
	}
	return 0, false
}

// hexAddress returns an address and a port as the tables have them: the words of the address, then
// the port.
func hexAddress(a netip.AddrPort) string {
	text := ""
	for word := range slices.Chunk(a.Addr().AsSlice(), 4) {
		text += hexWord(word)
	}
	return fmt.Sprintf("%s:%04X", text, a.Port())
}

// hexWord returns a word of an address, in the byte order of the machine.
func hexWord(word []byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(word)) }
