package dialect

import (
	"perigee"
	"perigee/internal/lib/rawjson"
)

// RestPresent returns a function for Cursor.Read that notes the unknown members of an object with
// their path, as Rest of notes does, but not those that are null: they are as good as absent.
func RestPresent(c *rawjson.Cursor, notes *perigee.Notes, path string) func(name []byte) {
	return func(name []byte) {
		if c.Kind() != rawjson.Null {
			notes.Unknown(path, name)
		}
	}
}

// ReadCacheMark reads a cache_control. It returns nil for anything but an object.
func ReadCacheMark(c *rawjson.Cursor) *perigee.CacheMark {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return nil
	}
	mark := &perigee.CacheMark{}
	c.Read(nil, "type", func() { c.Skip() }, "ttl", &mark.TTL)
	return mark
}
