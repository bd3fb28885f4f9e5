package hold

// A watch searches a text that comes in pieces for several sequences, in time linear in the text
// for each of them (Knuth, Morris and Pratt).
type watch []sequence

// A sequence is a stop sequence to search for.
type sequence struct {
	text string
	// back has for each n how many bytes still match when the first n did and the next one does
	// not.
	back    []int32
	matched int // how many bytes of it the text ends with
}

func newWatch(sequences []string) watch {
	var w watch
	for _, s := range sequences {
		if s == "" {
			continue // an empty sequence would end every answer before it begins
		}
		back := make([]int32, len(s)+1)
		for i := 1; i < len(s); i++ {
			n := back[i]
			for n > 0 && s[n] != s[i] {
				n = back[n]
			}
			if s[n] == s[i] {
				n++
			}
			back[i+1] = n
		}
		w = append(w, sequence{text: s, back: back})
	}
	return w
}

// read searches the next piece of the text. It returns the sequence that is complete first, the
// longest if there are several, and where in the piece it ends; or an empty one.
func (w watch) read(piece string) (end int, met string) {
	for i := range len(piece) {
		for k := range w {
			if s := &w[k]; s.next(piece[i]) && len(s.text) > len(met) {
				met = s.text
			}
		}
		if met != "" {
			return i + 1, met
		}
	}
	return 0, ""
}

// next adds a byte, and reports whether it completes the sequence.
func (s *sequence) next(c byte) bool {
	for s.matched > 0 && (s.matched == len(s.text) || s.text[s.matched] != c) {
		s.matched = int(s.back[s.matched])
	}
	if s.text[s.matched] == c {
		s.matched++
	}
	return s.matched == len(s.text)
}

// open returns the number of bytes at the end of the text that may be the beginning of a sequence.
func (w watch) open() int {
	longest := 0
	for k := range w {
		longest = max(longest, w[k].matched)
	}
	return longest
}

// reset starts a new text.
func (w watch) reset() {
	for k := range w {
		w[k].matched = 0
	}
}
