package peeruser

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ownPeer reports whether the other end of a connection belongs to a process of this user, of root, or of a further user. A socket
// that was closed belongs to none.
func ownPeer(conn net.Conn, further []int) bool {
	near, err1 := netip.ParseAddrPort(conn.LocalAddr().String())
	far, err2 := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err1 != nil || err2 != nil {
		return false
	}
	if !near.Addr().Unmap().Is4() {
		return true // not known
	}
	user, found, err := diagnose(far, near)
	if err != nil { // some containers do not allow it
		user, found = search(far, near)
	}
	return found && (user == 0 || user == os.Geteuid() || slices.Contains(further, user))
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
	binary.NativeEndian.PutUint32(m[header+4:], 0xffffffff) // every state
	id := m[header+8:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	source, destination := local.Addr().Unmap().As4(), remote.Addr().Unmap().As4()
	copy(id[4:], source[:])
	copy(id[20:], destination[:])
	for i := 40; i < 48; i++ {
		id[i] = 0xff // no cookie
	}
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, false, err
	}
	answer := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
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

// searching lets one table be read at a time: with many connections they are large.
var searching sync.Mutex

// search looks for the user of a socket in the tables of the kernel.
func search(local, remote netip.AddrPort) (user int, found bool) {
	searching.Lock()
	defer searching.Unlock()
	const tries = 3 // a table that changes while it is read may lack a line
	for range tries {
		for table, prefix := range map[string]string{"/proc/self/net/tcp": "", "/proc/self/net/tcp6": "0000000000000000" + hexWord([4]byte{0, 0, 0xff, 0xff})} {
			if user, found := searchTable(table, prefix+hexAddress(local), prefix+hexAddress(remote)); found {
				return user, true
			}
		}
	}
	return 0, false
}

// searchTable reads a table: after a header, lines of fields, of which the second and the third are the addresses, the eighth is
// the user, and the tenth the inode, 0 for a socket that no process has open.
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

// hexAddress is an IPv4 address and a port as the tables have them.
func hexAddress(a netip.AddrPort) string {
	return fmt.Sprintf("%s:%04X", hexWord(a.Addr().Unmap().As4()), a.Port())
}

// hexWord is a word of an address, in the byte order of the machine.
func hexWord(word [4]byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(word[:])) }
