package until

// A watch looks for sequences in a text that comes in pieces. Each byte is looked at once for each sequence, however long
// the sequences are and however they repeat themselves (Knuth, Morris and Pratt).
type watch []sequence

// A sequence is one that is watched for.
type sequence struct {
	text string
	// back has for each n how much of the sequence's beginning is left when its first n bytes were said and the next one is wrong.
	back []int32
	said int // how many bytes of it the text ends with
}

func newWatch(sequences []string) watch {
	var w watch
	for _, s := range sequences {
		if s == "" {
			continue // would end every answer before it begins
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

// read looks at the next piece of the text. It returns the sequence that is complete first, the longest if there are
// several, and where in the piece it ends; or an empty one.
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

// next takes a byte, and says whether the sequence is complete with it.
func (s *sequence) next(c byte) bool {
	for s.said > 0 && (s.said == len(s.text) || s.text[s.said] != c) {
		s.said = int(s.back[s.said])
	}
	if s.text[s.said] == c {
		s.said++
	}
	return s.said == len(s.text)
}

// open is how many bytes at the end of the text may yet become a sequence.
func (w watch) open() int {
	longest := 0
	for k := range w {
		longest = max(longest, w[k].said)
	}
	return longest
}

// reset forgets the text.
func (w watch) reset() {
	for k := range w {
		w[k].said = 0
	}
}
