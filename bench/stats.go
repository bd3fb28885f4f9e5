package main

import (
	"cmp"
	"slices"
)

// quantile returns the value below which the fraction q of the values lie; 0 when there are none.
func quantile[T cmp.Ordered](values []T, q float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

// each takes one figure from every item.
func each[S, T any](items []S, figure func(S) T) []T {
	list := make([]T, len(items))
	for i, item := range items {
		list[i] = figure(item)
	}
	return list
}
