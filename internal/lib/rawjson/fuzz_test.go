package rawjson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"perigee/internal/lib/rawjson"
)

// FuzzCheck compares Check and Cursor with encoding/json.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,2.5e3,"x\n\u00e4\ud83d\ude80",null,true,false,{}],"b":{"c":"\""}}`, `[[[]],{"a":{"a":""}}]`, ` "Größe" `, `{"a":1,"\u0061":2}`,
		`"\ud83d"`, "\"\xff\"", `[1,]`, `{"a"}`, `-0.0E-1`, `01`, `"` + strings.Repeat("x", 63) + `\"yyy"`, strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
		`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0,"\u0071":0}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		err := rawjson.Check(data)
		walkArbitrarily(t, data)
		if !bytes.Equal(data, before) {
			t.Fatal("the text was changed")
		}
		valid := json.Valid(data) && utf8.Valid(data)
		if err == nil && !valid {
			t.Fatal("accepted an invalid text")
		}
		if err != nil {
			e := err.(*rawjson.Error)
			if e.Offset < 0 || e.Offset > len(data) || len(e.Problem) > 300 || len(e.Path) > 300 || !utf8.ValidString(e.Error()) {
				t.Fatalf("%#v", e)
			}
			stricter := strings.HasPrefix(e.Problem, "duplicate key") || strings.HasPrefix(e.Problem, "unpaired surrogate") || strings.HasPrefix(e.Problem, "nested deeper")
			if valid && !stricter {
				t.Fatalf("refused a valid text: %v", err)
			}
			if strings.HasPrefix(e.Problem, "duplicate key") && valid && !hasDuplicates(data) {
				t.Fatalf("%v", err)
			}
			return
		}
		if hasDuplicates(data) {
			t.Fatal("accepted a duplicate key")
		}
		compareWithDecoder(t, data)
	})
}

// compareWithDecoder renders the text through a Cursor and compares what encoding/json makes of
// both.
func compareWithDecoder(t *testing.T, data []byte) {
	c := rawjson.NewCursor(data)
	rendered := render(nil, c)
	if c.Err() != nil || c.Kind() != rawjson.None {
		t.Fatalf("%v, then %v", c.Err(), c.Kind())
	}
	if got, want := decode(t, rendered), decode(t, data); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %s", rendered)
	}
	// Skipping must end where reading ends.
	if start, end, ok := rawjson.Find(data); !ok || string(data[start:end]) != string(bytes.Trim(data, " \t\r\n")) {
		t.Fatalf("skipped %q", data[start:end])
	}
}

func render(dst []byte, c *rawjson.Cursor) []byte {
	switch c.Kind() {
	case rawjson.Object:
		dst = append(dst, '{')
		for key := range c.Object() {
			dst = append(rawjson.AppendString(dst, string(key)), ':')
			dst = append(render(dst, c), ',')
		}
		return append(bytes.TrimSuffix(dst, []byte(",")), '}')
	case rawjson.Array:
		dst = append(dst, '[')
		for range c.Array() {
			dst = append(render(dst, c), ',')
		}
		return append(bytes.TrimSuffix(dst, []byte(",")), ']')
	case rawjson.String:
		return rawjson.AppendString(dst, c.String())
	case rawjson.Bool:
		if c.Bool() {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	}
	return append(dst, c.Raw()...)
}

func decode(t *testing.T, data []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

// hasDuplicates asks encoding/json for the tokens of a valid text.
func hasDuplicates(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var walk func() bool
	walk = func() bool {
		token, err := d.Token()
		if err != nil {
			return false
		}
		delim, ok := token.(json.Delim)
		if !ok {
			return false
		}
		found := false
		seen := map[string]bool{}
		for d.More() {
			if delim == '{' {
				key, err := d.Token()
				if err != nil {
					return found
				}
				found = found || seen[key.(string)]
				seen[key.(string)] = true
			}
			found = walk() || found
		}
		_, _ = d.Token()
		return found
	}
	return walk()
}

// walkArbitrarily reads a text that may be anything, in ways its bytes decide. Nothing may panic or
// go on forever.
func walkArbitrarily(t *testing.T, data []byte) {
	steps := 0
	c := rawjson.NewCursor(data)
	var read func(depth int)
	read = func(depth int) {
		if steps++; steps > 4*len(data)+100 {
			t.Fatal("does not end")
		}
		if depth > 100 {
			return
		}
		way := byte(steps)
		if len(data) > 0 {
			way += data[steps%len(data)]
		}
		switch way % 11 {
		case 0, 1, 2, 3:
			for range c.Object() {
				read(depth + 1)
				if way > 200 {
					break
				}
			}
		case 4, 5, 6:
			for range c.Array() {
				read(depth + 1)
				if way > 200 {
					break
				}
			}
		case 7:
			_ = c.String()
			_ = c.Bool()
		case 8:
			_, _ = c.Int64(), c.Float64()
		case 9:
			c.Raw()
		}
	}
	read(0)
	c = rawjson.NewCursor(data)
	render(nil, c)
	rawjson.Find(data, "a", "a")
}
