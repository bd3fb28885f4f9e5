package schema

// A spelling is one of the names of a word.
type spelling struct {
	name  string
	word  word
	alias bool
}

// spellings is a hash table of all names. Most of it is empty, so that a name that is none is mostly seen at once.
var spellings = spell()

func spell() (table [256]spelling) {
	put := func(s spelling) {
		i := hash([]byte(s.name))
		for table[i].name != "" {
			i++
		}
		table[i] = s
	}
	for w := wUnknown + 1; w < wordCount; w++ {
		put(spelling{name: words[w].name, word: w})
		if words[w].alias != "" {
			put(spelling{name: words[w].alias, word: w, alias: true})
		}
	}
	return table
}

// hash keeps nearly all names of words apart. The shortest has two letters.
func hash(name []byte) uint8 {
	return uint8(len(name))*29 + name[1]*21 + name[len(name)-2]*3
}

// lookup returns the word that a name is, and whether it is spelled in the way that protocol buffers spell it.
func lookup(name []byte) (w word, alias bool) {
	if len(name) < 2 {
		return wUnknown, false
	}
	for i := hash(name); ; i++ {
		s := &spellings[i]
		if s.name == string(name) {
			return s.word, s.alias
		}
		if s.name == "" {
			return wUnknown, false
		}
	}
}
