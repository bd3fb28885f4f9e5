package mitm

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// soOriginalDst is SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST, which have the same value.
const soOriginalDst = 80

// originalDestination returns the destination of a connection before netfilter redirected it. It
// returns false if the connection was not redirected.
func originalDestination(c *net.TCPConn) (destination netip.AddrPort, ok bool) {
	local, isTCP := c.LocalAddr().(*net.TCPAddr)
	raw, err := c.SyscallConn()
	if err != nil || !isTCP {
		return netip.AddrPort{}, false
	}
	here := local.AddrPort().Addr().Unmap()
	err = raw.Control(func(fd uintptr) {
		if here.Is4() {
			destination, ok = destination4(int(fd))
		} else {
			destination, ok = destination6(int(fd))
		}
	})
	if err != nil || !ok || destination == netip.AddrPortFrom(here, uint16(local.Port)) {
		return netip.AddrPort{}, false
	}
	return destination, true
}

// destination4 reads a sockaddr_in, in a type of the same size.
func destination4(fd int) (netip.AddrPort, bool) {
	value, err := unix.GetsockoptIPv6Mreq(fd, unix.IPPROTO_IP, soOriginalDst)
	if err != nil {
		return netip.AddrPort{}, false
	}
	b := value.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:4])), true
}

// destination6 reads a sockaddr_in6, in a type that begins with one.
func destination6(fd int) (netip.AddrPort, bool) {
	value, err := unix.GetsockoptIPv6MTUInfo(fd, unix.IPPROTO_IPV6, soOriginalDst)
	if err != nil {
		return netip.AddrPort{}, false
	}
	var port [2]byte
	binary.NativeEndian.PutUint16(port[:], value.Addr.Port)
	return netip.AddrPortFrom(netip.AddrFrom16(value.Addr.Addr).Unmap(), binary.BigEndian.Uint16(port[:])), true
}
