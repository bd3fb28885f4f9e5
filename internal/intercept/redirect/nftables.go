package redirect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

const table = "perigee_redirect"

// nftables keeps the rules in a table of its own, for both families. It changes them in one
// transaction.
type nftables struct{}

func (*nftables) name() string { return NFTables }

func (*nftables) usable() error {
	if !installed("nft") {
		return errors.New("nft is not installed; install the package nftables, or use --backend iptables")
	}
	return nil
}

// install replaces the table. Its chains have priority over the chains that other programs usually
// make.
func (*nftables) install(ctx context.Context, uid, port int) error {
	_, err := run(ctx, fmt.Sprintf(`
table inet %[1]s
delete table inet %[1]s
table inet %[1]s {
	chain to_proxy {
		type nat hook output priority -110; policy accept;
		meta skuid %[2]d tcp dport 443 redirect to :%[3]d
	}
	chain no_quic {
		type filter hook output priority -10; policy accept;
		meta skuid %[2]d udp dport 443 reject
	}
}
`, table, uid, port), "nft", "-f", "-")
	return err
}

func (n *nftables) remove(ctx context.Context) error {
	found, err := n.inspect(ctx)
	if err != nil || !found.any {
		return err
	}
	_, err = run(ctx, "delete table inet "+table+"\n", "nft", "-f", "-")
	return err
}

var (
	nftTCP = lazyregexp.New(`^meta skuid (\d+) tcp dport 443 redirect to :(\d+)$`)
	nftUDP = lazyregexp.New(`^meta skuid (\d+) udp dport 443 reject( |$)`)
)

func (n *nftables) inspect(ctx context.Context) (rules, error) {
	found := rules{backend: NFTables}
	if any, err := (chain{Family: "inet", Table: table}).exists(); err != nil || !any {
		return found, err
	}
	if !installed("nft") {
		return found, errors.New("there are rules of nftables, and nft is not installed; install the package nftables")
	}
	text, err := run(ctx, "", "nft", "-nn", "list", "table", "inet", table)
	if err != nil {
		return found, err
	}
	found.any = true
	found.problem = found.readTable(text)
	return found, nil
}

// readTable reads a table in the output format of nft, and returns its problem, or "".
func (r *rules) readTable(text string) (problem string) {
	var tcp, udp, other int
	uids := map[string]bool{}
	hooks := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch words := strings.Fields(line); {
		case line == "" || line == "}" || line[0] == '#' || words[0] == "table":
		case words[0] == "chain":
			name = words[1]
		case words[0] == "type":
			hooks[name] = strings.Join(words[1:min(4, len(words))], " ")
		case nftTCP().MatchString(line) && name == "to_proxy":
			m := nftTCP().FindStringSubmatch(line)
			tcp++
			uids[m[1]] = true
			r.uid, _ = strconv.Atoi(m[1])
			r.port, _ = strconv.Atoi(m[2])
		case nftUDP().MatchString(line) && name == "no_quic":
			udp++
			uids[nftUDP().FindStringSubmatch(line)[1]] = true
		default:
			other++
		}
	}
	switch {
	case tcp != 1 || udp != 1 || other != 0:
		return fmt.Sprintf("the table inet %s has %d rules for TCP, %d for UDP and %d others", table, tcp, udp, other)
	case len(uids) != 1:
		return fmt.Sprintf("the table inet %s has rules of several users", table)
	case hooks["to_proxy"] != "nat hook output" || hooks["no_quic"] != "filter hook output":
		return fmt.Sprintf("the chains of the table inet %s are no longer used", table)
	}
	return ""
}
