package rawjson_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"perigee/internal/lib/rawjson"
)

// TestCursorReadsARequest is also how the package is meant to be used.
func TestCursorReadsARequest(t *testing.T) {
	text := ` { "model" : "m" , "skipped" : [ { "a" : "]}" } ] , "stream" : true , "temperature" : 0.5 , "max" : "100" ,
		"contents" : [ { "parts" : [ { "text" : "a\nb" } , { "text" : null } ] } , null , { "parts" : null } ] , "schema" : { "x" : [ 1 ] } , "n" : 1e3 } `
	type request struct {
		Model, Schema string
		Stream        bool
		Temperature   float64
		Max, N        int64
		Texts         []string
	}
	var got request
	c := rawjson.NewCursor([]byte(text))
	for key := range c.Object() {
		switch string(key) {
		case "model":
			got.Model = c.String()
		case "stream":
			got.Stream = c.Bool()
		case "temperature":
			got.Temperature = c.Float64()
		case "max":
			got.Max = c.Int64()
		case "n":
			got.N = c.Int64()
		case "schema":
			got.Schema = string(c.Raw())
		case "contents":
			for range c.Array() {
				for key := range c.Object() {
					if string(key) != "parts" {
						continue
					}
					for i := range c.Array() {
						for key := range c.Object() {
							got.Texts = append(got.Texts, fmt.Sprintf("%d.%s=%s", i, key, c.Bytes()))
						}
					}
				}
			}
		}
	}
	want := request{"m", `{ "x" : [ 1 ] }`, true, 0.5, 100, 1000, []string{"0.text=a\nb", "1.text="}}
	if c.Err() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, c.Err(), want)
	}
	if c.Kind() != rawjson.None {
		t.Errorf("%v is left", c.Kind())
	}
}

func TestCursorLoopsMayBeLeftEarly(t *testing.T) {
	text := []byte(`[{"a":[1,[2,{"x":"]"}],3],"b":2},{"c":3},[[[4,5],6],7],"end"]`)
	walk := func(c *rawjson.Cursor, body func(i int)) (end string) {
		for i := range c.Array() {
			switch i {
			case 0, 1, 2:
				body(i)
			default:
				end = c.String()
			}
		}
		return end
	}
	for name, body := range map[string]func(c *rawjson.Cursor, i int){
		"before reading the value": func(c *rawjson.Cursor, i int) {
			for range c.Object() {
				break
			}
		},
		"after reading it": func(c *rawjson.Cursor, i int) {
			for range c.Object() {
				c.Skip()
				break
			}
		},
		"two levels at once": func(c *rawjson.Cursor, i int) {
			for range c.Object() {
				for range c.Array() {
					return
				}
			}
		},
		"after a nested loop that ended": func(c *rawjson.Cursor, i int) {
			for range c.Object() {
				for range c.Array() {
				}
				return
			}
		},
		"inside only": func(c *rawjson.Cursor, i int) {
			for key := range c.Object() {
				if string(key) == "b" {
					continue
				}
				for j := range c.Array() {
					if j == 1 {
						for range c.Array() {
							break
						}
						break
					}
				}
			}
		},
	} {
		c := rawjson.NewCursor(text)
		if end := walk(c, func(i int) {
			if c.Kind() == rawjson.Object && i == 0 {
				body(c, i)
			} else if c.Kind() == rawjson.Array {
			outer:
				for range c.Array() {
					for range c.Array() {
						for range c.Array() {
							break outer
						}
					}
				}
			}
		}); end != "end" || c.Err() != nil {
			t.Errorf("%s: got %q, %v", name, end, c.Err())
		}
	}
}

func TestCursorKindAndSpan(t *testing.T) {
	text := []byte(` [ null , true , -1.5 , "a\"" , [ ] , { "a" : 1 } ] `)
	c := rawjson.NewCursor(text)
	var got []string
	for range c.Array() {
		kind := c.Kind()
		start, end := c.Span()
		got = append(got, fmt.Sprint(kind, " ", string(text[start:end])))
	}
	want := []string{`null null`, `a boolean true`, `a number -1.5`, `a string "a\""`, `an array [ ]`, `an object { "a" : 1 }`}
	if !slices.Equal(got, want) || c.Err() != nil {
		t.Errorf("got %q, %v\nwant %q", got, c.Err(), want)
	}
}

func TestCursorAliases(t *testing.T) {
	text := []byte(`{"key":"plain","k\u0065y2":"esc\naped"}`)
	c := rawjson.NewCursor(text)
	for key := range c.Object() {
		value := c.Bytes()
		_ = append(key, 'X') // must not reach into the text
		_ = append(value, 'X')
	}
	if string(text) != `{"key":"plain","k\u0065y2":"esc\naped"}` {
		t.Errorf("appending changed the text: %s", text)
	}
	if allocs := testing.AllocsPerRun(100, func() { rawjson.NewCursor(text[7:14]).Bytes() }); allocs != 0 {
		t.Errorf("%v allocations for a string without escapes", allocs)
	}
}

func TestCursorTypeErrors(t *testing.T) {
	text := []byte(`{"contents":[{"parts":[{"text":"a"},{"text":5}]}],"n":1.5,"big":9223372036854775808,"s":"1x","huge":1e400,"o":{},"b":true}`)
	member := func(name string, read func(c *rawjson.Cursor)) func(c *rawjson.Cursor) {
		return func(c *rawjson.Cursor) {
			for key := range c.Object() {
				if string(key) == name {
					read(c)
				}
			}
		}
	}
	for _, test := range []struct {
		read func(c *rawjson.Cursor)
		want string
	}{
		{func(c *rawjson.Cursor) { _ = c.String() }, "want a string, found an object"},
		{func(c *rawjson.Cursor) {
			for range c.Array() {
				t.Error("an object has elements")
			}
		}, "want an array, found an object"},
		{member("contents", func(c *rawjson.Cursor) {
			for range c.Array() {
				for range c.Object() {
					for range c.Array() {
						for range c.Object() {
							_ = c.String()
						}
					}
				}
			}
		}), "contents[0].parts[1].text: want a string, found a number"},
		{member("contents", func(c *rawjson.Cursor) {
			for range c.Object() {
				t.Error("an array has members")
			}
		}), "contents: want an object, found an array"},
		{member("n", func(c *rawjson.Cursor) { c.Int64() }), "n: want a 64-bit integer, found 1.5"},
		{member("n", func(c *rawjson.Cursor) { c.Bool() }), "n: want a boolean, found a number"},
		{member("big", func(c *rawjson.Cursor) { c.Int64() }), "big: want a 64-bit integer, found 9223372036854775808"},
		{member("s", func(c *rawjson.Cursor) { c.Int64() }), `s: want a 64-bit integer, found a string "1x"`},
		{member("s", func(c *rawjson.Cursor) { c.Float64() }), `s: want a number that fits into 64 bits, found a string "1x"`},
		{member("huge", func(c *rawjson.Cursor) { c.Float64() }), "huge: want a number that fits into 64 bits, found 1e400"},
		{member("o", func(c *rawjson.Cursor) { c.Float64() }), "o: want a number that fits into 64 bits, found an object"},
		{member("b", func(c *rawjson.Cursor) { c.Int64() }), "b: want a 64-bit integer, found a boolean"},
		{member("b", func(c *rawjson.Cursor) { c.Bool(); c.Bool() }), "b: want a boolean, found nothing"},
	} {
		c := rawjson.NewCursor(text)
		test.read(c)
		if c.Err() == nil || c.Err().Error() != test.want {
			t.Errorf("got %v, want %s", c.Err(), test.want)
		}
		first := c.Err()
		for range c.Object() {
			t.Error("a loop goes on after an error")
		}
		if s, n, f, b, raw := c.String(), c.Int64(), c.Float64(), c.Bool(), c.Raw(); s != "" || n != 0 || f != 0 || b || len(raw) != 0 {
			t.Errorf("read %q, %d, %g, %v, %q after an error", s, n, f, b, raw)
		}
		if c.Err() != first {
			t.Errorf("the error changed to %v", c.Err())
		}
	}
}

func TestCursorNullIsZero(t *testing.T) {
	c := rawjson.NewCursor([]byte(`[null,null,null,null,null,null,null,1]`))
	for i := range c.Array() {
		switch i {
		case 0:
			if c.String() != "" {
				t.Error("string")
			}
		case 1:
			if c.Bytes() != nil {
				t.Error("bytes")
			}
		case 2:
			if c.Int64() != 0 {
				t.Error("int")
			}
		case 3:
			if c.Float64() != 0 {
				t.Error("float")
			}
		case 4:
			if c.Bool() {
				t.Error("bool")
			}
		case 5:
			for range c.Object() {
				t.Error("object")
			}
		case 6:
			for range c.Array() {
				t.Error("array")
			}
		case 7:
			if c.Int64() != 1 {
				t.Error("what follows")
			}
		}
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestInt64(t *testing.T) {
	for text, want := range map[string]any{
		"0": 0, "-0": 0, "-0.0e-5": 0, "1": 1, "-17": -17, "1.0": 1, "1e3": 1000, "1.5e1": 15, "1200e-2": 12, "0.00012e5": 12, "0e999999999999999999999": 0,
		"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64), "9.223372036854775807e18": int64(math.MaxInt64),
		"9223372036854775807.0000000000000000000000": int64(math.MaxInt64), `"1"`: 1, `"-9223372036854775808"`: int64(math.MinInt64), `"1e2"`: 100, `"\u0031"`: 1,
		"1" + strings.Repeat("0", 1000) + "e-1000": 1,
		"9223372036854775808":                      nil, "-9223372036854775809": nil, "1e19": nil, "1.5": nil, "1e-1": nil, "1e99999999999999999999999": nil, "1e-99999999999999999999999": nil,
		`""`: nil, `" 1"`: nil, `"+1"`: nil, `"01"`: nil, `"0x1"`: nil, `"NaN"`: nil, `"1_0"`: nil, "true": nil, "[]": nil,
	} {
		c := rawjson.NewCursor([]byte(text))
		got := c.Int64()
		if small, ok := want.(int); ok {
			want = int64(small)
		}
		if want == nil {
			if c.Err() == nil {
				t.Errorf("%.50s: got %d, want an error", text, got)
			}
		} else if c.Err() != nil || got != want {
			t.Errorf("%.50s: got %d, %v, want %d", text, got, c.Err(), want)
		}
	}
}

func TestFloat64(t *testing.T) {
	for text, want := range map[string]any{
		"0": 0.0, "1": 1.0, "-1.5": -1.5, "1e3": 1000.0, "0.1": 0.1, "1e-400": 0.0, `"2.5"`: 2.5,
		"1e400": nil, `"NaN"`: nil, `"Infinity"`: nil, `"inf"`: nil, `"0x1p2"`: nil, `""`: nil, "{}": nil,
	} {
		c := rawjson.NewCursor([]byte(text))
		got := c.Float64()
		if want == nil {
			if c.Err() == nil {
				t.Errorf("%s: got %g, want an error", text, got)
			}
		} else if c.Err() != nil || got != want.(float64) {
			t.Errorf("%s: got %g, %v, want %g", text, got, c.Err(), want)
		}
	}
}

// A Cursor that is reset forgets everything about the text before, its error included.
func TestCursorReset(t *testing.T) {
	c := rawjson.NewCursor([]byte(`{"a":["x\n",7]}`))
	for range c.Object() {
		for range c.Array() {
			_ = c.String()
		}
	}
	if c.Err() == nil {
		t.Error("a number was read as a string")
	}
	for _, want := range []string{"one\ntwo", strings.Repeat("long\t", 10_000), "three\"four"} {
		c.Reset(rawjson.AppendString(nil, want))
		if got := c.String(); got != want || c.Err() != nil {
			t.Errorf("read %.20q, %v", got, c.Err())
		}
		if c.Reset(nil); c.Kind() != rawjson.None {
			t.Errorf("%v is left to be read", c.Kind())
		}
	}
}

// A list that grows long gets room for exactly the elements that are left.
func TestReserve(t *testing.T) {
	for _, space := range []string{"", " "} {
		text := "[" + strings.Repeat(`{"a":[1,"],"]}`+space+","+space, 9999) + `"last"` + space + "]"
		c := rawjson.NewCursor([]byte(text))
		var list []string
		for range c.Array() {
			list = append(rawjson.Reserve(c, list), string(c.Raw()))
		}
		if len(list) != 10_000 || cap(list) > 10_100 || list[9999] != `"last"` {
			t.Errorf("%d elements, room for %d", len(list), cap(list))
		}
	}
	// A list that is collected from many short arrays is not copied for each of them.
	c := rawjson.NewCursor([]byte("[" + strings.Repeat("[1],", 9999) + "[1]]"))
	var list []int
	copies := 0
	for range c.Array() {
		for range c.Array() {
			room := cap(list)
			if list = append(rawjson.Reserve(c, list), 1); cap(list) != room {
				copies++
			}
		}
	}
	if len(list) != 10_000 || copies > 40 {
		t.Errorf("%d elements were copied %d times", len(list), copies)
	}
	// One value that stands for a list, and a text that is cut.
	for _, text := range []string{`{"a":1}`, `[1,2`, `[`} {
		c := rawjson.NewCursor([]byte(text))
		list := make([]int, 600)
		for range c.List() {
			list = append(rawjson.Reserve(c, list), 1)
		}
		if len(list) < 600 || cap(list) > 2000 {
			t.Errorf("%s: %d of %d", text, len(list), cap(list))
		}
	}
}
