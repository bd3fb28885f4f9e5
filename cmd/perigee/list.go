package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// A column of a listing: its head, and how a row fills it.
type column[T any] struct {
	head string
	cell func(T) any
}

// printable keeps what clients and providers called things from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// list prints rows as a table for people, or as a JSON array for programs. At a terminal the table is made to fit; in a pipe
// every column is there.
func list[T any](env *environment, asJSON bool, rows []T, columns ...column[T]) error {
	if asJSON {
		if rows == nil {
			rows = []T{}
		}
		out := json.NewEncoder(env.stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(rows)
	}
	width := env.width()
	t := fill(rows, columns, width > 0, false)
	if width > 0 {
		if t.dropEmpty(); t.total() > width {
			t = fill(rows, columns, true, true)
			t.dropEmpty()
			t.fit(width)
		}
	}
	return t.write(env.stdout)
}

// fill makes a table of rows. At a terminal large numbers are shortened; where there is little room, so is what has a shorter form.
func fill[T any](rows []T, columns []column[T], terminal, narrow bool) *table {
	t := &table{}
	for _, c := range columns {
		filled := tableColumn{head: c.head}
		for _, row := range rows {
			value := c.cell(row)
			if either, ok := value.(either); ok {
				if value = either.full; narrow {
					value = either.short
				}
			}
			switch n := value.(type) {
			case amount:
				filled.right = true
				if terminal {
					value = n.short()
				}
			case int, int64, decimal:
				filled.right = true
			}
			filled.cells = append(filled.cells, printable(fmt.Sprint(value)))
		}
		t.columns = append(t.columns, filled)
	}
	return t
}

// An either is a cell that has a shorter form, for where there is little room.
type either struct{ full, short any }

// An amount is a number, of tokens mostly, of which a person wants to know the first digits and a program all.
type amount int64

func (n amount) short() string {
	switch {
	case n < 10_000:
		return fmt.Sprint(int64(n))
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 999_950_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fB", float64(n)/1e9)
}

// A decimal is a number that is shown with one digit behind the point.
type decimal float64

func (d decimal) String() string { return fmt.Sprintf("%.1f", float64(d)) }

// number says how many of something there are.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
