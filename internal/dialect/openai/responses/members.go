package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"perigee/internal/rawjson"
)

// A responsesMember is one member of the body.
type responsesMember struct {
	name  []byte
	value json.RawMessage
}

// responsesMembers checks a body and finds its members on the way. They have to be read in another order than they come
// in, and looking for their ends again would take as long as reading them.
func responsesMembers(body []byte) ([]responsesMember, error) {
	list := make([]responsesMember, 0, 16) // agents send about a dozen
	err := rawjson.CheckMembers(body, func(name []byte, _ rawjson.Kind) {
		list = append(list, responsesMember{name: name})
	})
	if err != nil {
		return nil, err
	}
	const space = " \t\r\n"
	end := bytes.LastIndexByte(body, '}')
	for i := len(list) - 1; i >= 0; i-- {
		m := &list[i]
		start := cap(body) - cap(m.name) // the name is a piece of the body
		value := body[start+len(m.name)+1 : end]
		m.value = slices.Clip(bytes.TrimRight(bytes.TrimLeft(value, space+":"), space+","))
		end = start - 1
		if bytes.IndexByte(m.name, '\\') >= 0 {
			m.name = rawjson.NewCursor(body[start-1 : start+len(m.name)+1]).Bytes()
		}
	}
	return list, nil
}
