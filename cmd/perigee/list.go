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
	t := &table{}
	for _, c := range columns {
		filled := tableColumn{head: c.head}
		for _, row := range rows {
			filled.cells = append(filled.cells, printable(fmt.Sprint(c.cell(row))))
		}
		t.columns = append(t.columns, filled)
	}
	if width := env.width(); width > 0 {
		t.fit(width)
	}
	return t.write(env.stdout)
}

// number says how many of something there are.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
