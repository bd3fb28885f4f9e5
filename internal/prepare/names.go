package prepare

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"perigee"
)

const maxName = 64

// names gives functions names that the provider accepts. A legal name stays, whatever else there is; an illegal one
// gets a legal one that nobody else has. Both maps are nil as long as all names are legal.
type names struct {
	there map[string]string // the client's to the provider's, for the names that differ
	back  map[string]string
}

// legal says whether the provider accepts a name: a letter or an underscore, then also digits, dots, colons and
// dashes, at most 64 altogether.
func legal(name string) bool {
	if name == "" || len(name) > maxName || !legalAt(name[0], true) {
		return false
	}
	for i := 1; i < len(name); i++ {
		if !legalAt(name[i], false) {
			return false
		}
	}
	return true
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

// wire returns the name that the provider knows.
func (n *names) wire(name string) string {
	if n.there == nil {
		return name
	}
	if other, ok := n.there[name]; ok {
		return other
	}
	return name
}

// collect finds new names for all illegal ones in the prompt. Declared functions come first, so that their names do
// not depend on how the conversation went.
func (n *names) collect(p *perigee.Prompt, note func(name string)) {
	var illegal []string
	seen := map[string]bool{}
	visit := func(name string) {
		if !legal(name) && !seen[name] {
			seen[name] = true
			illegal = append(illegal, name)
		}
	}
	eachName(p, visit)
	if len(illegal) == 0 {
		return
	}
	taken := map[string]bool{}
	eachName(p, func(name string) {
		if legal(name) {
			taken[name] = true
		}
	})
	n.there, n.back = map[string]string{}, map[string]string{}
	for _, name := range illegal {
		other := replacement(name, taken)
		taken[other] = true
		n.there[name], n.back[other] = other, name
		note(name)
	}
}

func eachName(p *perigee.Prompt, visit func(string)) {
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

// replacement makes a legal name that still looks like the old one. Where that is taken, a digest of the old name
// makes the difference, so that the same name gets the same replacement tomorrow.
func replacement(name string, taken map[string]bool) string {
	b := make([]byte, 0, maxName)
	if name == "" || !legalAt(name[0], true) && legalAt(name[0], false) {
		b = append(b, '_')
	}
	for i := 0; i < len(name) && len(b) < maxName; i++ {
		if c := name[i]; legalAt(c, false) {
			b = append(b, c)
		} else {
			b = append(b, '_')
		}
	}
	if len(name) <= maxName && !taken[string(b)] {
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
		if !taken[candidate] {
			return candidate
		}
	}
}
