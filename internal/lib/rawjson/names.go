package rawjson

// Names is a set of names of members.
type Names []key

// NewNames returns a set of names.
func NewNames(names ...string) Names {
	set := make(Names, len(names))
	for i, name := range names {
		set[i] = newKey([]byte(name), 0, len(name), false)
	}
	return set
}

// MayHave reports whether any object of the text may have a member with one of the names. If it
// returns false, none has.
func (d *Document) MayHave(names Names) bool {
	if d == nil || d.names.escaped {
		return true
	}
	for _, name := range names {
		if d.names.mayHave(name) {
			return true
		}
	}
	return false
}

// A nameFilter has three bits for each name of a member. Agents send about a hundred different names:
// then it takes one in four hundred other names for one of them.
type nameFilter struct {
	bits    [32]uint64
	escaped bool // there was a name with escapes
}

func (f *nameFilter) add(name key) {
	if name.end < 0 {
		f.escaped = true
		return
	}
	h := name.hash()
	f.bits[h>>59] |= 1 << (h >> 53 & 63)
	f.bits[h>>48&31] |= 1 << (h >> 42 & 63)
	f.bits[h>>37&31] |= 1 << (h >> 31 & 63)
}

func (f *nameFilter) mayHave(name key) bool {
	h := name.hash()
	return f.bits[h>>59]>>(h>>53&63)&(f.bits[h>>48&31]>>(h>>42&63))&(f.bits[h>>37&31]>>(h>>31&63))&1 != 0
}

// hash returns a number for a name without escapes. Its upper bits depend on all of the name.
func (k key) hash() uint64 { return k.tag * 0x9E3779B97F4A7C15 }
