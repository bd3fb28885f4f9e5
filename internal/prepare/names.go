package prepare

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"perigee"
)

const maxName = 64

// names gives functions names that the provider accepts. A legal name stays, whatever else there is; an illegal one
// gets a legal one that nobody else has. Both maps are nil as long as all names are legal.
type names struct {
	there map[string]string // the client's to the provider's, for the names that differ
	back  map[string]string

	narrow bool // dots and colons are not legal
	fold   bool // declared names must differ by more than their case
	more   bool // there are illegal names that are in neither list
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

// legal says whether a name can stay as it is.
func (n *names) legal(name string) bool {
	return legal(name) && (!n.narrow || !strings.ContainsAny(name, ".:"))
}

// key is what has to be different about two names.
func (n *names) key(name string) string {
	if n.fold {
		return strings.ToLower(name)
	}
	return name
}

// wire returns the name that the provider knows.
func (n *names) wire(name string) string {
	if n.there == nil {
		return name
	}
	if other, ok := n.there[name]; ok {
		return other
	}
	if n.more && !n.legal(name) {
		return n.replacement(name, nil)
	}
	return name
}

// client returns a name of the provider's in the client's words, for a note.
func (n *names) client(wire string) string {
	if name, ok := n.back[wire]; ok {
		wire = name
	}
	return clip(wire)
}

// maxRenamed is how many illegal names are remembered with their new ones. Those after them, in conversations of very many tools, get
// new names each time they are met.
const maxRenamed = 4096

// collect finds new names for all illegal ones in the prompt. Declared functions come first, so that their names do
// not depend on how the conversation went.
func (n *names) collect(p *perigee.Prompt, notes *notes) {
	var illegal []string
	seen := map[string]bool{}
	visit := func(name string) {
		switch {
		case n.legal(name) || seen[name]:
		case len(illegal) >= maxRenamed:
			n.more = true
		default:
			seen[name] = true
			illegal = append(illegal, name)
		}
	}
	twins := n.twins(p)
	for _, name := range twins {
		seen[name] = true
	}
	illegal = append(illegal, twins...)
	eachName(p, visit)
	if len(illegal) == 0 {
		return
	}
	taken := map[string]bool{}
	eachName(p, func(name string) {
		if n.legal(name) {
			taken[n.key(name)] = true
		}
	})
	n.there, n.back = map[string]string{}, map[string]string{}
	for _, name := range illegal {
		other := n.replacement(name, taken)
		taken[n.key(other)] = true
		n.there[name], n.back[other] = other, name
		notes.add(perigee.NoteRenamed, "tool "+clip(name))
	}
}

// twins lists the declared functions whose names differ from an earlier one's by nothing but case.
func (n *names) twins(p *perigee.Prompt) (list []string) {
	if !n.fold {
		return nil
	}
	first := make(map[string]string, len(p.Tools))
	var listed map[string]bool
	for i := range p.Tools {
		f := p.Tools[i].Function
		if f == nil || !n.legal(f.Name) {
			continue
		}
		key := n.key(f.Name)
		if other, ok := first[key]; !ok {
			first[key] = f.Name
		} else if other != f.Name && !listed[f.Name] {
			if listed == nil {
				listed = map[string]bool{}
			}
			listed[f.Name] = true
			list = append(list, f.Name)
		}
	}
	return list
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
func (n *names) replacement(name string, taken map[string]bool) string {
	b := make([]byte, 0, maxName)
	if name == "" || !legalAt(name[0], true) && legalAt(name[0], false) {
		b = append(b, '_')
	}
	for i := 0; i < len(name) && len(b) < maxName; i++ {
		c := name[i]
		if !legalAt(c, false) || n.narrow && (c == '.' || c == ':') {
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
