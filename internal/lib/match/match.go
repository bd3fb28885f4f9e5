// Package match compares the names that people type with the names that exist, by pattern and by
// similarity. Configuration, routing and the command line use it so that a typo gets the same hint
// everywhere.
package match

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern reports whether name fits pattern, in which * matches any run of characters and ? matches
// one. Case counts. The time is linear in practice and bounded by the product of the lengths.
func Pattern(pattern, name string) bool {
	star, mark := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && pattern[p] == '?':
			_, size := utf8.DecodeRuneInString(name[n:])
			p++
			n += size
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// IsPattern reports whether a name is a pattern for Match.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?") }

// BySpecificity orders patterns for a search that takes the first match: a longer one before a
// shorter one, of two that are as long the one with fewer *, and then by their text.
func BySpecificity(a, b string) int {
	return cmp.Or(
		cmp.Compare(utf8.RuneCountInString(b), utf8.RuneCountInString(a)),
		cmp.Compare(strings.Count(a, "*"), strings.Count(b, "*")),
		strings.Compare(a, b),
	)
}

// SameNumbers reports whether two names have the same digits in the same order. Names of models
// that differ in a number are different models, however similar the names are.
func SameNumbers(a, b string) bool { return digits(a) == digits(b) }

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// maxCompared bounds the work that a hostile name can cause.
const maxCompared = 128

// Nearest returns up to n of the known names that are similar to word, the most similar first.
// Names that share too little with it are left out, so the result may be empty.
func Nearest(word string, known []string, n int) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, name := range known {
		if name == word {
			continue
		}
		d := Distance(strings.ToLower(word), strings.ToLower(name))
		contained := len(word) >= 3 && strings.Contains(strings.ToLower(name), strings.ToLower(word))
		if contained {
			d = min(d, 2)
		}
		if contained || d <= likeness(word, name) {
			found = append(found, candidate{name, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var nearest []string
	for _, c := range found[:min(n, len(found))] {
		nearest = append(nearest, c.name)
	}
	return nearest
}

// likeness returns the largest distance of two similar names: a third of their letters, and at
// least one.
func likeness(a, b string) int { return max(1, max(len(a), len(b))/3) }

// NearestAddress returns the one of the known e-mail addresses that a misspelt one looks like most;
// empty if there is none. Addresses of one domain are not near each other for that, so the local
// part decides.
func NearestAddress(address string, known []string) (nearest string) {
	person := func(address string) string {
		name, _, _ := strings.Cut(strings.ToLower(address), "@")
		return name
	}
	best := math.MaxInt
	for _, candidate := range known {
		a, b := person(address), person(candidate)
		if d := Distance(a, b); candidate != address && d < best && d <= likeness(a, b) {
			best, nearest = d, candidate
		}
	}
	return nearest
}

// Distance counts the insertions, deletions, replacements and swaps of neighbours between two
// words. Words longer than any name that people type are infinitely far from everything.
func Distance(a, b string) int {
	if max(len(a), len(b)) > maxCompared {
		return math.MaxInt
	}
	x, y := []rune(a), []rune(b)
	// Three rows suffice: a swap looks back two.
	before, previous, current := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(x); i++ {
		current[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(y)]
}
