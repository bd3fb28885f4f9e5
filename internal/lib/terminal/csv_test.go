package terminal_test

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/terminal"
)

type base struct {
	Name  string `json:"name"`
	Class perigee.Class
}

type row struct {
	base
	Count  int64         `json:"count"`
	Part   float64       `json:"part"`
	Good   bool          `json:"good"`
	Cost   perigee.Cost  `json:"cost,omitzero"`
	Null   perigee.Cost  `json:"null"`
	Time   time.Time     `json:"time,omitzero"`
	List   []string      `json:"list,omitempty"`
	Hidden int           `json:"-"`
	Length time.Duration `json:"-"`
}

func TestRowsAreLinesOfValues(t *testing.T) {
	var b strings.Builder
	err := terminal.WriteCSV(&b, []row{
		{base: base{"a, \"b\"\nc", perigee.ClassInvalid}, Count: 1 << 40, Part: 0.0000001, Good: true, Cost: perigee.USD(0),
			Null: perigee.USD(1.5), Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), List: []string{"x", "y"}},
		{base: base{Name: "ü"}, Count: -1},
	})
	want := "name,Class,count,part,good,cost,null,time,list\r\n" +
		"\"a, \"\"b\"\"\r\nc\",invalid,1099511627776,0.0000001,true,0,1.5,2026-01-31T12:00:00Z,\"[\"\"x\"\",\"\"y\"\"]\"\r\n" +
		"ü,,-1,0,false,,,,\r\n"
	if err != nil || b.String() != want {
		t.Errorf("got %v\n%q\nwant\n%q", err, b.String(), want)
	}
	b.Reset()
	if err := terminal.WriteCSV(&b, []row(nil)); err != nil || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("no rows: %v, %q", err, b.String())
	}
}

// Names of models and clients are what callers say they are.
func TestFormulasAreTexts(t *testing.T) {
	texts := []string{`=HYPERLINK("http://example.com")`, "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "a=1", ""}
	var rows []row
	for _, text := range texts {
		rows = append(rows, row{base: base{Name: text, Class: perigee.Class(text)}})
	}
	var b strings.Builder
	if err := terminal.WriteCSV(&b, rows); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(lines) != len(texts)+1 {
		t.Fatal(len(lines), err)
	}
	for _, line := range lines[1:] {
		for _, cell := range line[:2] {
			if cell != "" && strings.Contains("=+-@\t\r\n", cell[:1]) {
				t.Errorf("a cell begins like a formula: %q", cell)
			}
		}
	}
	if got := []string{lines[1][0], lines[9][0], lines[10][0]}; !slices.Equal(got, []string{"'" + texts[0], "a=1", ""}) {
		t.Errorf("got %q", got)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	if err := terminal.WriteCSV(brokenWriter{}, []row{{}}); err == nil || err.Error() != "no space" {
		t.Errorf("got %v", err)
	}
}
