package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A table is a listing before it is written.
type table struct{ columns []tableColumn }

type tableColumn struct {
	head  string
	cells []string
	right bool // numbers, which are compared by their last digits
}

// seldom are the heads of columns that a narrow terminal can do without, the first to go first, and together what says little
// without the other. What the listing is about stays, whatever it is called.
var seldom = [][]string{
	{"PROJECT"}, {"UPSTREAM"}, {"PREFERRED"}, {"WINDOWS"}, {"KEY"}, {"CACHED"}, {"THINKING"}, {"CLIENT"}, {"IN", "OUT"}, {"MS"}, {"ACCOUNT"}, {"POOL"},
	{"TIME"},
}

const (
	between    = 2  // spaces between columns
	foldedWide = 24 // what is left to a column that is folded, before another goes
	foldedLeft = 8  // and when none can go
)

// fit makes lines as short as a terminal is wide. First what says the same everywhere goes, then what is seldom asked for, as far as
// there is no room for it; then the widest columns are folded at their words.
func (t *table) fit(width int) {
	for _, heads := range seldom {
		if t.total() > width && t.same(heads) {
			t.columns = without(t.columns, [][]string{heads})
		}
	}
	whole := slices.Clone(t.columns)
	var gone [][]string
	for _, heads := range seldom {
		if !t.fits(width) && len(without(t.columns, [][]string{heads})) < len(t.columns) {
			gone = append(gone, heads)
			t.columns = without(whole, gone)
		}
	}
	for i := len(gone) - 1; i >= 0; i-- { // a wide one may have made room for several
		fewer := slices.Delete(slices.Clone(gone), i, i+1)
		if more := (&table{without(whole, fewer)}); more.fits(width) {
			t.columns, gone = more.columns, fewer
		}
	}
	if t.total() > width {
		t.fold(t.room(width))
	}
}

// fits says whether lines are short enough, once the widest column is folded at its words.
func (t *table) fits(width int) bool {
	widest := slices.MaxFunc(t.columns, func(a, b tableColumn) int { return a.width() - b.width() })
	return t.total()-widest.width()+widest.folded(foldedWide) <= width
}

// without is columns but for those with such heads. The first stays.
func without(columns []tableColumn, gone [][]string) []tableColumn {
	heads := slices.Concat(gone...)
	kept := slices.Clone(columns[:1])
	for _, c := range columns[1:] {
		if !slices.Contains(heads, c.name()) {
			kept = append(kept, c)
		}
	}
	return kept
}

// room is how wide columns but the first may be, so that they fit together, and whether words have to be cut for that.
func (t *table) room(width int) (room int, cut bool) {
	for _, cut := range []bool{false, true} {
		for room := width; room > foldedLeft; room-- {
			total := t.columns[0].width()
			for _, c := range t.columns[1:] {
				if cut {
					total += between + min(c.width(), room)
				} else {
					total += between + c.folded(room)
				}
			}
			if total <= width {
				return room, cut
			}
		}
	}
	return foldedLeft, true
}

// same says whether there is nothing in columns with these heads to tell rows apart by.
func (t *table) same(heads []string) bool {
	found := false
	for i, c := range t.columns {
		if slices.Contains(heads, c.name()) {
			if i == 0 || !c.same() {
				return false
			}
			found = true
		}
	}
	return found
}

// total is how wide the table is.
func (t *table) total() int {
	n := between * (len(t.columns) - 1)
	for _, c := range t.columns {
		n += c.width()
	}
	return n
}

func (c tableColumn) width() int {
	n := utf8.RuneCountInString(c.head)
	for _, cell := range c.cells {
		n = max(n, utf8.RuneCountInString(cell))
	}
	return n
}

// name is the head without what stands in parentheses behind it.
func (c tableColumn) name() string {
	name, _, _ := strings.Cut(c.head, " (")
	return name
}

// folded is how wide the column is when it is folded to so many characters at its words, which stay whole.
func (c tableColumn) folded(room int) int {
	longest := utf8.RuneCountInString(c.head)
	for _, cell := range c.cells {
		for word := range strings.FieldsSeq(cell) {
			longest = max(longest, utf8.RuneCountInString(word))
		}
	}
	return min(c.width(), max(room, longest))
}

// lineWidth is how long the lines of its cells may be.
func (c tableColumn) lineWidth(room int, cut bool) int {
	if cut {
		return room
	}
	return c.folded(room)
}

// same says that there is nothing to tell rows apart by.
func (c tableColumn) same() bool {
	return len(c.cells) > 1 && !slices.ContainsFunc(c.cells, func(cell string) bool { return cell != c.cells[0] })
}

// fold gives rows more lines, so that no column but the first is wider than that, unless it has a longer word and words are not cut.
func (t *table) fold(width int, cut bool) {
	folded := make([]tableColumn, len(t.columns))
	for row := range t.columns[0].cells {
		height := 1
		lines := make([][]string, len(t.columns))
		for i, c := range t.columns {
			lines[i] = []string{c.cells[row]}
			if i > 0 && utf8.RuneCountInString(c.cells[row]) > width {
				lines[i] = foldWords(c.cells[row], c.lineWidth(width, cut), cut)
			}
			height = max(height, len(lines[i]))
		}
		for i := range folded {
			lines[i] = append(lines[i], make([]string, height-len(lines[i]))...)
			folded[i].cells = append(folded[i].cells, lines[i]...)
		}
	}
	for i, c := range t.columns {
		folded[i].head, folded[i].right = c.head, c.right
	}
	t.columns = folded
}

// foldWords breaks a text into lines at its spaces; the spaces that it begins with begin each line. A word that is longer than a
// line is cut where cut says so, and otherwise left whole: somebody may want to copy it.
func foldWords(text string, width int, cut bool) []string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	room := max(width-len(indent), 1)
	var lines []string
	var line []rune
	for word := range strings.FieldsSeq(text) {
		rest := []rune(word)
		if len(line) > 0 && len(line)+1+len(rest) <= room {
			line = append(append(line, ' '), rest...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, indent+string(line))
		}
		for ; cut && len(rest) > room; rest = rest[room:] {
			lines = append(lines, indent+string(rest[:room]))
		}
		line = rest
	}
	return append(lines, indent+string(line))
}

// dropEmpty leaves out the columns, but not the first, that have nothing in any row.
func (t *table) dropEmpty() {
	t.columns = slices.DeleteFunc(t.columns, func(c tableColumn) bool {
		said := slices.ContainsFunc(c.cells, func(cell string) bool { return cell != "" && cell != "-" })
		return !said && len(c.cells) > 0 && c.head != t.columns[0].head
	})
}

func (t *table) write(out io.Writer) error {
	var b strings.Builder
	line := func(cell func(tableColumn) string) {
		var row strings.Builder
		for i, c := range t.columns {
			if i > 0 {
				row.WriteString(strings.Repeat(" ", between))
			}
			text := cell(c)
			pad := strings.Repeat(" ", c.width()-utf8.RuneCountInString(text))
			if c.right {
				text = pad + text
			} else {
				text += pad
			}
			row.WriteString(text)
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	line(func(c tableColumn) string { return c.head })
	if len(t.columns) > 0 {
		for row := range t.columns[0].cells {
			line(func(c tableColumn) string { return c.cells[row] })
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
