package redirect

import (
	"errors"
	"strings"
	"testing"
)

func TestRequestsThatCannotBeFulfilled(t *testing.T) {
	for want, q := range map[string]Request{
		"choose the user":                        {Port: 1},
		`"a b" is not a valid user name`:         {User: "a b", Port: 1},
		`"-rf" is not a valid user name`:         {User: "-rf", Port: 1},
		`"12" is not a valid user name`:          {User: "12", Port: 1},
		"0 is not a port to redirect to":         {User: "a"},
		"443 is not a port to redirect to":       {User: "a", Port: 443},
		"65536 is not a port":                    {User: "a", Port: 65536},
		`"pf" is not a backend; use nftables or`: {User: "a", Port: 1, Backend: "pf"},
	} {
		_, err := New().Install(t.Context(), q)
		if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestTablesOfOtherVersions reads what other versions of nft print.
func TestTablesOfOtherVersions(t *testing.T) {
	const text = `table inet perigee_redirect {
	chain to_proxy {
		type nat hook output priority -110; policy accept;
		meta skuid 991 tcp dport 443 redirect to :8742
	}

	chain no_quic {
		type filter hook output priority -10; policy accept;
		meta skuid 991 udp dport 443 reject with icmpx port-unreachable
	}
}
`
	var r rules
	if problem := r.readTable(text); problem != "" || r.uid != 991 || r.port != 8742 {
		t.Errorf("got %+v, %q", r, problem)
	}
	for from, to := range map[string]string{
		"991 udp": "992 udp", "hook output priority -110": "hook input priority -110", "tcp dport 443": "tcp dport 80", "reject": "accept",
		"nat hook output priority -110; policy accept;": "",
	} {
		if problem := new(rules).readTable(strings.Replace(text, from, to, 1)); problem == "" {
			t.Errorf("%q instead of %q is accepted", to, from)
		}
	}
}
