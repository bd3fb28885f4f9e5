package names

import (
	"net/netip"
	"strings"
)

// IsLoopback says whether a host without port is this machine and no other can reach it. Names are not looked up: only
// localhost, with or without the dot that ends a full name, is promised to be here.
func IsLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
