package netguard_test

import (
	"net/netip"
	"testing"

	"perigee/internal/lib/netguard"
)

func TestIsPublic(t *testing.T) {
	tests := []struct {
		address string
		public  bool
	}{
		{"93.184.215.14", true},
		{"8.8.8.8", true},
		{"192.0.1.1", true},
		{"100.63.255.255", true},
		{"100.128.0.1", true},
		{"172.15.0.1", true},
		{"172.32.0.1", true},
		{"2606:2800:21f:cb07:6820:80da:af6b:8b2c", true},
		{"64:ff9b::808:808", true},     // 8.8.8.8 through NAT64
		{"2002:808:808::1", true},      // and through 6to4
		{"::ffff:93.184.215.14", true}, // and in the other notation

		{"168.63.129.15", true},
		{"168.63.129.17", true},
		{"2606:2800::5efe:808:808", true}, // 8.8.8.8 in an ISATAP address

		{"168.63.129.16", false}, // host of Azure
		{"64:ff9b::a83f:8110", false},
		{"2002:a83f:8110::1", false},
		{"100.100.100.200", false}, // metadata of Alibaba Cloud
		{"192.0.0.192", false},     // and of Oracle Cloud
		{"192.31.196.1", false},
		{"192.52.193.1", false},
		{"192.175.48.1", false},
		{"2620:4f:8000::1", false},
		{"2606:2800::5efe:a00:1", false},     // ISATAP
		{"2606:2800::200:5efe:a00:1", false}, // ISATAP
		{"5f00::1", false},
		{"0.0.0.0", false},
		{"0.1.2.3", false},
		{"10.0.0.1", false},
		{"100.64.0.1", false},
		{"100.127.255.254", false},
		{"127.0.0.1", false},
		{"127.255.0.3", false},
		{"169.254.169.254", false},
		{"172.16.0.1", false},
		{"172.31.255.255", false},
		{"192.0.0.8", false},
		{"192.0.2.1", false},
		{"192.88.99.1", false},
		{"192.168.1.1", false},
		{"198.18.0.1", false},
		{"198.19.255.255", false},
		{"198.51.100.7", false},
		{"203.0.113.9", false},
		{"224.0.0.1", false},
		{"239.255.255.250", false},
		{"240.0.0.1", false},
		{"255.255.255.255", false},
		{"::", false},
		{"::1", false},
		{"::ffff:127.0.0.1", false},
		{"::ffff:10.1.2.3", false},
		{"::ffff:169.254.169.254", false},
		{"::7f00:1", false},                             // IPv4-compatible
		{"::ffff:0:7f00:1", false},                      // IPv4-translated
		{"64:ff9b::7f00:1", false},                      // NAT64
		{"64:ff9b::a9fe:a9fe", false},                   // NAT64
		{"64:ff9b:1::808:808", false},                   // NAT64 with a local prefix
		{"2002:7f00:1::", false},                        // 6to4
		{"2002:c0a8:101::1", false},                     // 6to4
		{"2001:0:4136:e378:8000:63bf:3fff:fdd2", false}, // Teredo
		{"2001:db8::1", false},
		{"3fff::1", false},
		{"fc00::1", false},
		{"fd00:ec2::254", false},
		{"fe80::1", false},
		{"fe80::1%eth0", false},
		{"2606:2800:21f::1%eth0", false},
		{"fec0::1", false},
		{"ff02::1", false},
		{"100::1", false},
		{"4000::1", false},
	}
	for _, test := range tests {
		if got := netguard.IsPublic(netip.MustParseAddr(test.address)); got != test.public {
			t.Errorf("%s: public is %v", test.address, got)
		}
	}
}
