package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
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

// list prints rows as a table for people, or as a JSON array for programs.
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
	w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	for i, c := range columns {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, c.head)
	}
	fmt.Fprintln(w)
	for _, row := range rows {
		for i, c := range columns {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, printable(fmt.Sprint(c.cell(row))))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
