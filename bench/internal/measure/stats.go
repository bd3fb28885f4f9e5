// Package measure has what the programs that measure share: processes and what the system says
// about them, programs of other modules, and statistics.
package measure

import (
	"cmp"
	"slices"
)

// Quantile returns the value below which the fraction q of the values lie; 0 when there are none.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// Each takes one figure from every item.
func Each[S, T any](items []S, figure func(S) T) []T {
	list := make([]T, len(items))
	for i, item := range items {
		list[i] = figure(item)
	}
	return list
}
