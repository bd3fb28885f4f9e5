package redirect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// systemID identifies the run of the system and the network namespace.
func systemID() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/net")
	return strings.TrimSpace(string(boot)) + " " + namespace
}

// othersCanChange reports whether a user other than root can change a file, or the entries of a
// directory.
func othersCanChange(path string) (bool, error) {
	var info unix.Stat_t
	if err := unix.Lstat(path, &info); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return info.Uid != 0 || info.Mode&0o022 != 0, nil
}

// lock lets one command at a time change rules. It locks a directory that always exists, so that
// no file is left.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(undoPatience); ; {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { _ = f.Close() }, nil
		}
		if time.Now().After(deadline) {
			_ = f.Close()
			return nil, fmt.Errorf("another perigee redirect is running: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Chains are queried and removed with the protocol of nft(8), because nft may not be installed
// next to iptables.

var familyNumbers = map[string]uint8{"inet": 1, "ip": 2, "ip6": 10}

// message returns a message about a chain, or about its table.
func (c chain) message(kind, flags, sequence int, ofTable bool) []byte {
	body := []byte{familyNumbers[c.Family], 0, 0, 0}
	// NFTA_CHAIN_TABLE has the same number.
	body = append(body, attribute(unix.NFTA_TABLE_NAME, c.Table)...)
	if !ofTable {
		body = append(body, attribute(unix.NFTA_CHAIN_NAME, c.Name)...)
	}
	return header(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, sequence, body)
}

func header(kind, flags, sequence int, body []byte) []byte {
	m := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(m, uint32(unix.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(m[4:], uint16(kind))
	binary.NativeEndian.PutUint16(m[6:], uint16(unix.NLM_F_REQUEST|flags))
	binary.NativeEndian.PutUint32(m[8:], uint32(sequence))
	return append(m, body...)
}

func attribute(kind uint16, text string) []byte {
	size := 4 + len(text) + 1
	a := make([]byte, (size+3)&^3)
	binary.NativeEndian.PutUint16(a, uint16(size))
	binary.NativeEndian.PutUint16(a[2:], kind)
	copy(a[4:], text)
	return a
}

// exists reports whether there is such a chain, or, without a name, such a table.
func (c chain) exists() (bool, error) {
	kind := unix.NFT_MSG_GETCHAIN
	if c.Name == "" {
		kind = unix.NFT_MSG_GETTABLE
	}
	err := exchange(c.message(kind, 0, 1, c.Name == ""), 1)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EPERM):
		return false, fmt.Errorf("the rules of the system cannot be read: %w; in a container, this needs the capability NET_ADMIN", err)
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP):
		return false, nil // there is none, or the kernel has no nf_tables
	}
	return false, fmt.Errorf("the rules of the system cannot be read: %w", err)
}

// removeEmpty removes a chain that has no rules, and its table if that was created with it and has
// no other content, in one transaction. A chain that another program uses is kept.
func (c chain) removeEmpty() error {
	const nonRecursive = 0x100 // NLM_F_NONREC
	batch := []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}
	m := header(unix.NFNL_MSG_BATCH_BEGIN, 0, 1, batch)
	m = append(m, c.message(unix.NFT_MSG_DELCHAIN, unix.NLM_F_ACK|nonRecursive, 2, false)...)
	answers := 1
	if c.Whole {
		m = append(m, c.message(unix.NFT_MSG_DELTABLE, unix.NLM_F_ACK|nonRecursive, 3, true)...)
		answers++
	}
	m = append(m, header(unix.NFNL_MSG_BATCH_END, 0, 4, batch)...)
	err := exchange(m, answers)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EBUSY) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the empty chain %s of the table %s %s could not be removed: %w", c.Name, c.Family, c.Table, err)
	}
	return nil
}

// exchange sends messages and reads the answers. The first error ends it.
func exchange(messages []byte, answers int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	if err := unix.Sendto(fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buffer := make([]byte, 16<<10)
	for answers > 0 {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return err
		}
		got, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return err
		}
		for _, m := range got {
			if m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
				if code := -int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
					return unix.Errno(code)
				}
			}
			answers--
		}
	}
	return nil
}
