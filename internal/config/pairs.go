package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// A pair is one key of a mapping and its value.
type pair struct {
	name       string
	key, value *yaml.Node
}

// pairs lists what a mapping says, with what it merges in (<<) after its own keys and without what those
// replace. The same key twice is a problem, since one of the two would be lost.
func (l *loader) pairs(node *yaml.Node, key string) []pair {
	return l.pairsInto(nil, make(map[string]int), node, key, 0)
}

func (l *loader) pairsInto(list []pair, lines map[string]int, node *yaml.Node, key string, depth int) []pair {
	own := make(map[string]bool)
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, value := l.follow(node.Content[i]), node.Content[i+1]
		if k == nil {
			return list
		}
		if k.Kind != yaml.ScalarNode {
			l.problemAt(k.Line, k.Column, "a key must be a word, not "+describe(k), "")
			continue
		}
		if k.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		line, seen := lines[k.Value]
		switch {
		case own[k.Value]:
			l.problemAt(k.Line, k.Column, fmt.Sprintf("key %q is set twice", k.Value), fmt.Sprintf("the first time is in line %d", line))
		case !seen:
			lines[k.Value] = k.Line
			list = append(list, pair{k.Value, k, value})
		}
		own[k.Value] = true
	}
	for _, m := range merged {
		list = l.merge(list, lines, m, key, depth)
	}
	return list
}

// merge adds what << names: a mapping or a list of mappings, of which earlier ones win.
func (l *loader) merge(list []pair, lines map[string]int, value *yaml.Node, key string, depth int) []pair {
	target := l.follow(value)
	switch {
	case target == nil:
		return list
	case depth >= maxMerges:
		l.problemAt(value.Line, value.Column, "<< is nested too deep", "")
		return list
	case target.Kind == yaml.MappingNode:
		return l.pairsInto(list, lines, target, key, depth+1)
	case target.Kind == yaml.SequenceNode:
		for _, item := range target.Content {
			list = l.merge(list, lines, item, key, depth+1)
		}
		return list
	}
	l.problemAt(value.Line, value.Column, "<< needs a mapping or a list of mappings", "")
	return list
}
