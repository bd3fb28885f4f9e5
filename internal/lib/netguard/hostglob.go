package netguard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"perigee/internal/lib/match"
)

// A HostList matches hosts. The zero value matches none.
type HostList struct {
	patterns []string // as given
	labels   [][]string
}

// maxName is the longest name that DNS has.
const maxName = 253

// ParseHosts reads patterns. In a pattern, * matches characters other than the dot; case does not
// count. The part after the last * must have two labels, because a certificate authority can only
// be limited to whole labels: *.example.org becomes example.org.
func ParseHosts(patterns []string) (HostList, error) {
	list := HostList{patterns: slices.Clone(patterns)}
	for _, p := range patterns {
		labels, err := parse(p)
		if err != nil {
			return HostList{}, fmt.Errorf("%q: %w", p, err)
		}
		list.labels = append(list.labels, labels)
	}
	return list, nil
}

func parse(pattern string) ([]string, error) {
	name := strings.TrimSuffix(strings.ToLower(pattern), ".")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return nil, fmt.Errorf("an IP address cannot be intercepted; name the host")
	}
	if name == "" || len(name) > maxName {
		return nil, fmt.Errorf("a name has 1 to %d characters", maxName)
	}
	if strings.ContainsAny(name, ":/") {
		return nil, fmt.Errorf("not a host name; leave out the scheme, the port and the path")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_*") != "" || len(label) > 63 {
			return nil, fmt.Errorf("not a host name, with * for characters other than the dot")
		}
	}
	if whole := tail(labels); len(whole) < 2 && len(whole) < len(labels) {
		return nil, fmt.Errorf("too wide: at least two labels must follow the last *, as in *.example.org")
	}
	return labels, nil
}

// tail returns the labels after the last one with *.
func tail(labels []string) []string {
	for i := len(labels) - 1; i >= 0; i-- {
		if strings.Contains(labels[i], "*") {
			return labels[i+1:]
		}
	}
	return labels
}

// Match reports whether a host matches. The host has no port; a final dot is ignored.
func (l HostList) Match(host string) bool {
	name := strings.Split(strings.TrimSuffix(strings.ToLower(host), "."), ".")
	return slices.ContainsFunc(l.labels, func(labels []string) bool {
		return slices.EqualFunc(labels, name, func(pattern, label string) bool { return label != "" && match.Pattern(pattern, label) })
	})
}

// Constraints returns the names of the subtrees that contain all matching hosts, sorted.
func (l HostList) Constraints() []string {
	var names []string
	for _, labels := range l.labels {
		names = append(names, strings.Join(tail(labels), "."))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Patterns returns the patterns that were passed to ParseHosts.
func (l HostList) Patterns() []string { return slices.Clone(l.patterns) }
