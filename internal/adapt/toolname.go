package adapt

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"perigee"
)

const maxName = 64

// A nameMap translates the names of one prompt. A legal name stays; an illegal one is replaced by a
// legal one that no other function has. The zero value changes no name.
type nameMap struct {
	NoPunctuation bool // dots and colons are not legal
	FoldCase      bool // declared names must differ by more than their case

	// Names that differ, from the client's to the provider's and back; nil if every name stayed.
	there, back map[string]string
	more        bool // there are illegal names that are in neither map
}

// legalToolName reports whether the provider accepts a name: a letter or an underscore, then also
// digits, dots, colons and dashes, at most 64 altogether.
func legalToolName(name string) bool {
	for i := range len(name) {
		if !legalAt(name[i], i == 0) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

func legalAt(c byte, first bool) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		return true
	case c >= '0' && c <= '9', c == '.', c == ':', c == '-':
		return !first
	}
	return false
}

// legal reports whether a name can stay unchanged.
func (n *nameMap) legal(name string) bool {
	return legalToolName(name) && (!n.NoPunctuation || !strings.ContainsAny(name, ".:"))
}

// key returns the part of a name in which two of them must differ.
func (n *nameMap) key(name string) string {
	if n.FoldCase {
		return strings.ToLower(name)
	}
	return name
}

// Wire returns the name that is declared to the provider.
func (n *nameMap) Wire(name string) string {
	if other, ok := n.there[name]; ok {
		return other
	}
	if n.more && !n.legal(name) {
		return n.replacement(name, nil)
	}
	return name
}

// Client returns the client's name of the function that is declared to the provider as wire.
func (n *nameMap) Client(wire string) string {
	if name, ok := n.back[wire]; ok {
		return name
	}
	return wire
}

// maxRenamed bounds how many illegal names are remembered with their replacements. Further ones, in
// conversations of very many tools, get a replacement each time they are met.
const maxRenamed = 4096

// Collect finds replacements for all illegal names in the prompt, and returns the replaced names in
// order. Declared functions come first, so that their names do not depend on the conversation; a
// declared name that differs from an earlier one only in case counts as illegal.
func (n *nameMap) Collect(p *perigee.Prompt) (illegal []string) {
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			illegal = append(illegal, name)
		}
	}
	if n.FoldCase {
		first := make(map[string]string, len(p.Tools)) // by key
		for i := range p.Tools {
			f := p.Tools[i].Function
			if f == nil || !n.legal(f.Name) {
				continue
			}
			key := n.key(f.Name)
			if other, ok := first[key]; !ok {
				first[key] = f.Name
			} else if other != f.Name {
				add(f.Name)
			}
		}
	}
	eachToolName(p, func(name string) {
		switch {
		case n.legal(name):
		case len(illegal) < maxRenamed:
			add(name)
		default:
			n.more = n.more || !seen[name]
		}
	})
	if len(illegal) == 0 {
		return nil
	}
	taken := map[string]bool{}
	eachToolName(p, func(name string) {
		if n.legal(name) {
			taken[n.key(name)] = true
		}
	})
	n.there, n.back = map[string]string{}, map[string]string{}
	for _, name := range illegal {
		other := n.replacement(name, taken)
		taken[n.key(other)] = true
		n.there[name], n.back[other] = other, name
	}
	return illegal
}

// eachToolName calls visit with the name of each function that the prompt declares, allows, calls
// or has a result of.
func eachToolName(p *perigee.Prompt, visit func(string)) {
	for i := range p.Tools {
		if f := p.Tools[i].Function; f != nil && f.Name != "" {
			visit(f.Name)
		}
	}
	if p.ToolConfig != nil {
		for _, name := range p.ToolConfig.Allowed {
			visit(name)
		}
	}
	for i := range p.Contents {
		for j := range p.Contents[i].Parts {
			switch part := &p.Contents[i].Parts[j]; {
			case part.Call != nil:
				visit(part.Call.Name)
			case part.Response != nil:
				visit(part.Response.Name)
			}
		}
	}
}

// replacement makes a legal name that resembles the illegal one. Where that is taken, a digest of
// the illegal name is added, so that the same name always gets the same replacement.
func (n *nameMap) replacement(name string, taken map[string]bool) string {
	b := make([]byte, 0, maxName)
	if name == "" || !legalAt(name[0], true) && legalAt(name[0], false) {
		b = append(b, '_')
	}
	for i := 0; i < len(name) && len(b) < maxName; i++ {
		c := name[i]
		if !legalAt(c, false) || n.NoPunctuation && (c == '.' || c == ':') {
			c = '_'
		}
		b = append(b, c)
	}
	if len(name) <= maxName && !taken[n.key(string(b))] {
		return string(b)
	}
	sum := sha256.Sum256([]byte(name))
	digest := hex.EncodeToString(sum[:6])
	for i := 0; ; i++ {
		tail := "_" + digest
		if i > 0 {
			tail += strconv.Itoa(i)
		}
		candidate := string(b[:min(len(b), maxName-len(tail))]) + tail
		if !taken[n.key(candidate)] {
			return candidate
		}
	}
}
