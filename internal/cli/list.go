package cli

import (
	"encoding/json"

	"perigee/internal/lib/terminal"
)

// List prints rows: with --json as an array, with --csv as lines with the names of the array,
// otherwise as a table with a column for each head. cells returns the cells of a row.
func List[T any](env *Env, rows []T, heads []string, cells func(T) []any) error {
	if env.JSON {
		if rows == nil {
			rows = []T{}
		}
		return WriteJSON(env, rows)
	}
	if env.CSV {
		return terminal.WriteCSV(env.Stdout, rows)
	}
	t := terminal.NewTable(heads...)
	for _, row := range rows {
		t.Add(cells(row)...)
	}
	return t.Write(env.Stdout, env.Width())
}

// WriteJSON prints a value for programs.
func WriteJSON(env *Env, v any) error {
	out := json.NewEncoder(env.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
