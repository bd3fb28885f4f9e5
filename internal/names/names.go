// Package names compares the names that people type with the names that exist: by pattern, and by
// likeness. Configuration, routing and the command line use it so that a typo gets the same hint everywhere.
package names

import (
	"cmp"
	"slices"
	"strings"
)

// Match says whether name fits pattern, in which * stands for any run of characters and ? for one. Case
// counts. The time is linear in practice and bounded by the product of the lengths.
func Match(pattern, name string) bool {
	star, mark := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
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

// maxCompared bounds the work that a hostile name can cause.
const maxCompared = 128

// Nearest returns up to n of the known names that look like word, the most alike first. Names that share
// too little with it are left out, so the result may be empty.
func Nearest(word string, known []string, n int) []string {
	if len(word) > maxCompared {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, name := range known {
		if name == word || len(name) > maxCompared {
			continue
		}
		d := distance(strings.ToLower(word), strings.ToLower(name))
		if contained := len(word) >= 3 && strings.Contains(strings.ToLower(name), strings.ToLower(word)); contained {
			d = min(d, 2)
		}
		if d <= max(len(word), len(name))/2 {
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

// distance counts the insertions, deletions, replacements and swaps of neighbours between two words.
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
