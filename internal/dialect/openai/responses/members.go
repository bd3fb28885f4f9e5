package responses

import (
	"bytes"
	"encoding/json"

	"perigee/internal/rawjson"
)

// A member is one member of the body.
type member struct {
	name  []byte
	value json.RawMessage
}

// membersOf checks a body and finds its members on the way. They have to be read in another order than they come
// in, and looking for their ends again would take as long as reading them.
func membersOf(body []byte) ([]member, error) {
	list := make([]member, 0, 16) // agents send about a dozen
	err := rawjson.CheckMembers(body, func(m rawjson.Member) {
		name := m.Name
		if bytes.IndexByte(name, '\\') >= 0 {
			name = rawjson.NewCursor(body[m.At:]).Bytes()
		}
		list = append(list, member{name, body[m.Start:m.End:m.End]})
	})
	return list, err
}
