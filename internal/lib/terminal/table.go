package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// optional are the heads of columns that a narrow terminal leaves out, in this order. The first
// column of a table always stays.
var optional = []string{
	"UPSTREAM", "PROJECT", "PREFERRED", "WINDOWS", "KEY", "WRITTEN", "CACHED", "THINKING", "CLIENT", "IN", "OUT", "MS", "ACCOUNT", "POOL", "TIME",
}

const (
	gap          = 2  // spaces between columns
	foldedWidth  = 24 // a column is folded to this width before an optional column is left out
	minimumWidth = 8  // a column is cut to this width when no optional column is left
	firstWidth   = 12 // the first column is shortened to this width when all other columns are cut
)

// A Table is a listing. Columns of numbers are aligned to the right.
type Table struct {
	heads []string
	rows  [][]any
}

// NewTable returns a table without rows.
func NewTable(heads ...string) *Table { return &Table{heads: heads} }

// Add appends a row, with a cell for each head.
func (t *Table) Add(cells ...any) { t.rows = append(t.rows, cells) }

// A Count is a number that a terminal shows in four digits or so: 12.3k.
type Count int64

// Short returns the count as a terminal shows it.
func (n Count) Short() string {
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

// A Decimal is a number with one digit after the point.
type Decimal float64

func (d Decimal) String() string { return fmt.Sprintf("%.1f", float64(d)) }

// An Amount is a number that is formatted already, such as a sum of money.
type Amount string

// Write writes the table. Width 0 is a pipe, which gets every column and all digits. At a terminal
// counts are short, empty columns are left out, optional columns are left out until the rest fits,
// and long cells are folded.
func (t *Table) Write(out io.Writer, width int) error {
	columns := t.columns(width > 0)
	if width > 0 {
		columns = fit(columns, width)
	}
	var b strings.Builder
	for row := -1; row < len(t.rows); row++ { // -1: the heads
		cells, height := make([][]string, len(columns)), 1
		for i, c := range columns {
			cells[i] = c.lines(row)
			height = max(height, len(cells[i]))
		}
		for line := range height {
			writeLine(&b, columns, cells, line)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func writeLine(b *strings.Builder, columns []column, cells [][]string, line int) {
	var text string
	for i, c := range columns {
		cell := ""
		if line < len(cells[i]) {
			cell = cells[i][line]
		}
		pad := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(cell)))
		if c.right {
			cell = pad + cell
		} else {
			cell += pad
		}
		if i > 0 {
			text += strings.Repeat(" ", gap)
		}
		text += cell
	}
	b.WriteString(strings.TrimRight(text, " ") + "\n")
}

type column struct {
	head    string
	cells   []string
	right   bool
	width   int
	longest int  // characters in the longest word
	short   bool // long cells are shortened, and not folded
}

// columns formats the cells. At a terminal a column without content is left out, unless it is the
// first.
func (t *Table) columns(terminal bool) (columns []column) {
	for i, head := range t.heads {
		c := column{head: head, width: utf8.RuneCountInString(head)}
		empty := len(t.rows) > 0
		for _, row := range t.rows {
			cell := row[i]
			switch n := cell.(type) {
			case Count:
				if c.right = true; terminal {
					cell = n.Short()
				}
			case int, int64, Decimal, Amount:
				c.right = true
			}
			text := Printable(fmt.Sprint(cell))
			c.cells = append(c.cells, text)
			c.width = max(c.width, utf8.RuneCountInString(text))
			for word := range strings.FieldsSeq(text) {
				c.longest = max(c.longest, utf8.RuneCountInString(word))
			}
			empty = empty && (text == "" || text == "-")
		}
		if !terminal || !empty || i == 0 {
			columns = append(columns, c)
		}
	}
	return columns
}

// lines returns the lines of a cell, or of the head for row -1.
func (c column) lines(row int) []string {
	if row < 0 {
		return []string{c.head}
	}
	if utf8.RuneCountInString(c.cells[row]) <= c.width {
		return []string{c.cells[row]}
	}
	if c.short {
		return []string{Shorten(c.cells[row], c.width)}
	}
	return fold(c.cells[row], c.width, true)
}

// folded returns the width to which the column can be folded without cutting a word.
func (c column) folded() int {
	return min(c.width, max(foldedWidth, c.longest, utf8.RuneCountInString(c.head)))
}

// cut returns the width to which the column can be cut.
func (c column) cut() int { return min(c.width, max(minimumWidth, utf8.RuneCountInString(c.head))) }

// fit leaves out optional columns until the remaining ones fit when folded. If nothing more can be
// left out, words are cut.
func fit(columns []column, width int) []column {
	for _, head := range optional {
		if total(columns, column.folded) <= width {
			break
		}
		rest := slices.DeleteFunc(slices.Clone(columns[1:]), func(c column) bool {
			name, _, _ := strings.Cut(c.head, " (") // a time has its zone in parentheses
			return name == head
		})
		columns = append(columns[:1:1], rest...)
	}
	narrow(columns, width, column.folded)
	narrow(columns, width, column.cut)
	shortenFirst(columns, width)
	return columns
}

// shortenFirst shortens the cells of the first column if lines do not fit otherwise. An ID stays
// whole, because it is copied.
func shortenFirst(columns []column, width int) {
	over := total(columns, func(c column) int { return c.width }) - width
	if first := &columns[0]; over > 0 && first.head != "ID" {
		first.width = min(first.width, max(first.width-over, firstWidth, utf8.RuneCountInString(first.head)))
		first.short = true
	}
}

// total returns the width of a line: the width of the first column, and widthOf for each further
// one.
func total(columns []column, widthOf func(column) int) int {
	n := columns[0].width
	for _, c := range columns[1:] {
		n += gap + widthOf(c)
	}
	return n
}

// narrow lowers one limit for the width of all columns but the first until lines fit, or every
// column has its least width.
func narrow(columns []column, width int, least func(column) int) {
	for limit := width; limit > 0 && total(columns, func(c column) int { return c.width }) > width; limit-- {
		for i := 1; i < len(columns); i++ {
			columns[i].width = min(columns[i].width, max(limit, least(columns[i])))
		}
	}
}
