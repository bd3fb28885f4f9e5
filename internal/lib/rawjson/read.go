package rawjson

import "encoding/json"

// Read reads an object into variables: into alternates names and pointers. A null leaves its
// variable unchanged. Members that into does not name are passed to rest, which may read them; nil
// skips them. It is for objects that a text has few of: for many, a switch in a loop over Object is
// quicker.
func (c *Cursor) Read(rest func(key []byte), into ...any) {
	for key := range c.Object() {
		if v := Named(string(key), into); v != nil {
			c.Into(v)
		} else if rest != nil {
			rest(key)
		}
	}
}

// Named returns the value after name in a list of names and values; nil if the name is not there.
func Named(name string, list []any) any {
	for i := 0; i+1 < len(list); i += 2 {
		if list[i].(string) == name {
			return list[i+1]
		}
	}
	return nil
}

// Into reads a value into a variable by its pointer, or by a function. A null is not read.
func (c *Cursor) Into(v any) {
	if c.Kind() == Null {
		return
	}
	switch v := v.(type) {
	case *string:
		*v = c.String()
	case *[]byte:
		*v = c.Raw()
	case *json.RawMessage:
		*v = c.Raw()
	case *bool:
		*v = c.Bool()
	case **bool:
		*v = new(c.Bool())
	case *int:
		*v = int(c.Int64())
	case *int64:
		*v = c.Int64()
	case **int64:
		*v = new(c.Int64())
	case *float64:
		*v = c.Float64()
	case **float64:
		*v = new(c.Float64())
	case func():
		v()
	default:
		panic("rawjson: cannot read into a variable of this type") // without v, which would have to be on the heap for it
	}
}
