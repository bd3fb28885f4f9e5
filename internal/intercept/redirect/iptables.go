package redirect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// mark is the comment of perigee's rules.
const mark = "perigee-redirect"

// iptables inserts its rules before the rules of other programs, in the chains that all programs
// share.
type iptables struct{}

func (*iptables) name() string { return IPTables }

func (*iptables) usable() error {
	for _, f := range families() {
		for _, name := range []string{f.tool, f.tool + "-save"} {
			if !installed(name) {
				return fmt.Errorf("%s is not installed; install the package iptables, or use --backend nftables", name)
			}
		}
	}
	return nil
}

// A family is IPv4 or IPv6.
type family struct{ name, tool string }

// families returns the address families that the system has.
func families() []family {
	all := []family{{"ip", "iptables"}}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		all = append(all, family{"ip6", "ip6tables"})
	}
	return all
}

// An iptablesRule is a rule with perigee's mark.
type iptablesRule struct {
	table string
	words []string // without the command
}

func wanted(uid, port int) []iptablesRule {
	rule := func(table, protocol string, target ...string) iptablesRule {
		return iptablesRule{table, append([]string{"OUTPUT", "-p", protocol, "-m", protocol, "--dport", "443",
			"-m", "owner", "--uid-owner", strconv.Itoa(uid), "-m", "comment", "--comment", mark, "-j"}, target...)}
	}
	return []iptablesRule{
		rule("filter", "udp", "REJECT"),
		// The redirect comes last: an install that is interrupted before it has no effect on TCP.
		rule("nat", "tcp", "REDIRECT", "--to-ports", strconv.Itoa(port)),
	}
}

func (i *iptables) install(ctx context.Context, uid, port int) error {
	for _, f := range families() {
		for _, r := range wanted(uid, port) {
			args := slices.Concat([]string{"-w", "5", "-t", r.table, "-I", "OUTPUT", "1"}, r.words[1:])
			if _, err := run(ctx, "", f.tool, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *iptables) remove(ctx context.Context) error {
	for _, f := range families() {
		found, err := marked(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range found {
			if _, err := run(ctx, "", f.tool, slices.Concat([]string{"-w", "5", "-t", r.table, "-D"}, r.words)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// marked returns perigee's rules of a family. Unlike other ways to list rules, saving creates no
// tables.
func marked(ctx context.Context, f family) ([]iptablesRule, error) {
	if !installed(f.tool + "-save") {
		return nil, nil
	}
	text, err := run(ctx, "", f.tool+"-save")
	if err != nil {
		return nil, err
	}
	var found []iptablesRule
	name := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		for i, word := range words {
			words[i] = strings.Trim(word, `"`)
		}
		switch {
		case strings.HasPrefix(line, "*"):
			name = strings.TrimSpace(line[1:])
		case len(words) > 2 && words[0] == "-A" && value(words, "--comment") == mark:
			found = append(found, iptablesRule{name, words[1:]})
		}
	}
	return found, nil
}

// value returns the word after another.
func value(words []string, name string) string {
	if i := slices.Index(words, name); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func (i *iptables) inspect(ctx context.Context) (rules, error) {
	all := rules{backend: IPTables}
	var problems []string
	for _, f := range families() {
		found, err := marked(ctx, f)
		if err != nil {
			return rules{}, err
		}
		if len(found) > 0 {
			all.any = true
		}
		if err := all.read(found); err != nil {
			problems = append(problems, f.tool+" has "+err.Error())
		}
	}
	if all.any {
		all.problem = strings.Join(problems, "; ")
	}
	return all, nil
}

// read takes the user and the port from the rules of a family. It returns an error if they are
// incomplete or inconsistent.
func (r *rules) read(found []iptablesRule) error {
	var tcp, udp, other int
	for _, rule := range found {
		uid, err := strconv.Atoi(value(rule.words, "--uid-owner"))
		if err != nil || r.uid != 0 && r.uid != uid {
			return errors.New("rules of several users")
		}
		r.uid = uid
		inOutput := rule.words[0] == "OUTPUT" && value(rule.words, "--dport") == "443"
		switch protocol, target := value(rule.words, "-p"), value(rule.words, "-j"); {
		case inOutput && rule.table == "nat" && protocol == "tcp" && target == "REDIRECT":
			port, err := strconv.Atoi(value(rule.words, "--to-ports"))
			if err != nil || r.port != 0 && r.port != port {
				return errors.New("rules with several ports")
			}
			r.port = port
			tcp++
		case inOutput && rule.table == "filter" && protocol == "udp" && target == "REJECT":
			udp++
		default:
			other++
		}
	}
	if tcp != 1 || udp != 1 || other != 0 {
		return fmt.Errorf("%d rules for TCP, %d for UDP and %d others", tcp, udp, other)
	}
	return nil
}

// missingChains returns the chains that iptables will have to create. The chains of the legacy
// iptables always exist.
func missingChains(ctx context.Context) (missing []chain, err error) {
	for _, f := range families() {
		version, err := run(ctx, "", f.tool, "--version")
		if err != nil {
			return nil, err
		}
		if !strings.Contains(version, "nf_tables") {
			continue
		}
		for _, table := range []string{"nat", "filter"} {
			c := chain{Family: f.name, Table: table, Name: "OUTPUT"}
			hasTable, err1 := chain{Family: f.name, Table: table}.exists()
			hasChain, err2 := c.exists()
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			if c.Whole = !hasTable; !hasChain {
				missing = append(missing, c)
			}
		}
	}
	return missing, nil
}
