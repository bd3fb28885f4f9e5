package responses

import (
	"bytes"
	"encoding/json"

	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A member is one member of the body.
type member struct {
	name  []byte
	value json.RawMessage
}

// maxMembers is the maximum number of members of a body; the API has about thirty.
const maxMembers = 4096

// membersOf checks a body and finds its members on the way. They are read in another order than
// they have in the body, and finding their ends again would take as long as reading them.
func membersOf(body []byte) ([]member, *rawjson.Document, error) {
	list := make([]member, 0, 16) // agents send about a dozen
	doc, err := rawjson.Open(body, func(m rawjson.Member) {
		name := m.Name
		if bytes.IndexByte(name, '\\') >= 0 {
			name = rawjson.NewCursor(body[m.At:]).Bytes()
		}
		if len(list) <= maxMembers {
			list = append(list, member{name, body[m.Start:m.End:m.End]})
		}
	})
	switch {
	case err != nil:
		return nil, nil, invalidBody("", err)
	case len(list) > maxMembers:
		return nil, nil, openai.Invalid("the body has more than %d members", maxMembers).WithHint("send only members that the API defines")
	}
	return list, doc, nil
}
