package netguard

import "net/netip"

// special lists the special-purpose blocks of the IANA registries that netip does not classify, and
// public-looking addresses at which clouds serve the host of the machine.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),    // carriers; 100.100.100.200: metadata of Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"), // host of Azure: wire server, metadata
	netip.MustParsePrefix("192.0.0.0/24"),     // 192.0.0.192: metadata of Oracle Cloud
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.31.196.0/24"), // AS112
	netip.MustParsePrefix("192.52.193.0/24"), // AMT
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("192.175.48.0/24"), // AS112
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), // Teredo and more
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3") // all of IPv6 that is given out
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

// IsPublic reports whether an address belongs to the public internet. An address that embeds an
// IPv4 address is as public as that one.
func IsPublic(a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if a.Is6() {
		b := a.As16()
		switch {
		case nat64.Contains(a):
			return IsPublic(netip.AddrFrom4([4]byte(b[12:16])))
		case sixToFour.Contains(a):
			return IsPublic(netip.AddrFrom4([4]byte(b[2:6])))
		case !globalUnicast.Contains(a):
			return false
		case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe && !IsPublic(netip.AddrFrom4([4]byte(b[12:16]))): // ISATAP
			return false
		}
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, block := range special {
		if block.Contains(a) {
			return false
		}
	}
	return true
}
