package rawjson_test

import (
	"encoding/json"
	"testing"

	"perigee/internal/lib/rawjson"
)

func TestReadFillsVariables(t *testing.T) {
	var (
		s, left, inner string
		b, yes         bool
		raw            []byte
		message        json.RawMessage
		i              int
		n              int64
		f              float64
		pb             *bool
		pn             *int64
		pf             *float64
		rest           []string
	)
	left = "as it was"
	c := rawjson.NewCursor([]byte(`{"s":"a\n","left":null,"b":true,"raw":[1],"message":{},"i":"7","n":8,"f":0.5,"pb":false,"pn":9,"pf":1.5,` +
		`"in":{"inner":"x","other":1},"new":{"a":1},"old":null}`))
	c.Read(func(key []byte) { rest = append(rest, string(key)) },
		"s", &s, "left", &left, "b", &b, "yes", &yes, "raw", &raw, "message", &message, "i", &i, "n", &n, "f", &f, "pb", &pb, "pn", &pn, "pf", &pf,
		"in", func() { c.Read(nil, "inner", &inner) })
	if c.Err() != nil || s != "a\n" || left != "as it was" || !b || yes || string(raw) != "[1]" || string(message) != "{}" || i != 7 || n != 8 || f != 0.5 {
		t.Error(c.Err(), s, left, b, yes, raw, message, i, n, f)
	}
	if pb == nil || *pb || pn == nil || *pn != 9 || pf == nil || *pf != 1.5 || inner != "x" {
		t.Error(pb, pn, pf, inner)
	}
	if len(rest) != 2 || rest[0] != "new" || rest[1] != "old" {
		t.Error(rest)
	}
}

func TestReadKeepsTypes(t *testing.T) {
	var s string
	c := rawjson.NewCursor([]byte(`{"a":{"s":1}}`))
	c.Read(nil, "a", func() { c.Read(nil, "s", &s) })
	wrong, ok := c.Err().(*rawjson.TypeError)
	if !ok || wrong.Path != "a.s" {
		t.Error(c.Err())
	}
}

func TestReadAllocatesNothingOfItsOwn(t *testing.T) {
	text := []byte(`{"n":1,"b":true,"other":null}`)
	var c rawjson.Cursor
	if n := testing.AllocsPerRun(100, func() {
		var n int64
		var b bool
		c.Reset(text)
		c.Read(nil, "n", &n, "b", &b)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
