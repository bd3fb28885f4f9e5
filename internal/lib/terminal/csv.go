package terminal

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// WriteCSV writes rows, which are structs. Values that JSON leaves out or writes as null are empty,
// and lists and structs are cells with JSON. A text that a spreadsheet would take for a formula
// gets a ' in front.
func WriteCSV[T any](w io.Writer, rows []T) error {
	columns := columnsOf(nil, reflect.TypeFor[T]())
	out := csv.NewWriter(w)
	out.UseCRLF = true
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		for j, c := range columns {
			var err error
			if line[j], err = c.cell(row); err != nil {
				return err
			}
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// A csvColumn is a member of a row.
type csvColumn struct {
	name  string
	index []int // of the field
	omit  bool  // the zero value is left out in JSON
}

// columnsOf lists the members of a struct as JSON has them. Members of embedded structs are its
// own.
func columnsOf(index []int, t reflect.Type) (columns []csvColumn) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := append(append([]int{}, index...), i)
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			columns = append(columns, columnsOf(at, f.Type)...)
		default:
			if name == "" {
				name = f.Name
			}
			columns = append(columns, csvColumn{name, at, strings.Contains(options, "omit")})
		}
	}
	return columns
}

// cell returns the value of a column.
func (c csvColumn) cell(row reflect.Value) (string, error) {
	v := row.FieldByIndex(c.index)
	if c.omit && v.IsZero() {
		return "", nil
	}
	switch _, custom := v.Interface().(json.Marshaler); {
	case custom:
	case v.Kind() == reflect.String:
		return harmless(v.String()), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'f', -1, 64), nil
	}
	data, err := json.Marshal(v.Interface())
	if err != nil || string(data) == "null" {
		return "", err
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		return harmless(text), nil
	}
	return string(data), nil
}

// harmless returns a text that spreadsheets do not take for a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
