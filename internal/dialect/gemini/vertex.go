package gemini

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// studioOnly are the members of the Gemini API that Vertex AI does not have, by the object that they
// are in. "" is the request.
var studioOnly = map[string][]string{
	"":                 {"store"},
	"generationConfig": {"enableEnhancedCivicAnswers"},
	"toolConfig":       {"includeServerSideToolInvocations"},
	"tools":            {"fileSearch", "mcpServers"},
	"parts":            {"partMetadata", "toolCall", "toolResponse"},
}

// ForVertex returns the edits after which a valid body can be sent to Vertex AI, in order, and notes:
// contents without a role get the role user, and members that only the Gemini API has are left
// out. The name of the model, which is in the URL, is left out as well.
func ForVertex(body []byte) ([]rawjson.Edit, []perigee.Note) {
	e := vertexEditor{body: body}
	e.object(rawjson.NewCursor(body), "")
	notes := e.notes.List()
	if e.roles {
		notes = append(notes, perigee.Note{Action: perigee.NoteAdded, Subject: "role user"})
	}
	return e.edits, notes
}

// A vertexEditor collects the edits of one body.
type vertexEditor struct {
	body  []byte
	edits []rawjson.Edit
	notes perigee.Notes
	roles bool // a role was added
}

// object edits the object before the cursor, which is the value of a member.
func (e *vertexEditor) object(c *rawjson.Cursor, of string) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	members := rawjson.Removal{Text: e.body, End: c.Offset() + 1}
	for key := range c.Object() {
		start, name := c.Offset(), camel(key)
		if e.drops(of, name) {
			c.Skip()
			e.edits = members.Drop(e.edits, c.Offset())
			continue
		}
		members.Keep(e.edits, start)
		switch name {
		case "contents", "systemInstruction", "parts", "tools":
			e.list(c, name)
		case "generationConfig", "toolConfig":
			e.object(c, name)
		default:
			c.Skip()
		}
		members.End = c.Offset()
	}
}

// drops reports whether a member is left out, and notes it.
func (e *vertexEditor) drops(of, name string) bool {
	if of == "" && name == "model" {
		return true
	}
	if !slices.Contains(studioOnly[of], name) {
		return false
	}
	e.notes.Dropped(strings.TrimPrefix(of+"."+name, "."))
	return true
}

// list edits the elements of a list before the cursor, which may be an object in place of a list of one. An element
// that has nothing but members that are left out is left out itself.
func (e *vertexEditor) list(c *rawjson.Cursor, of string) {
	if c.Kind() != rawjson.Array {
		e.element(c, of)
		return
	}
	elements := rawjson.Removal{Text: e.body, End: c.Offset() + 1}
	for range c.Array() {
		start := c.Offset()
		if e.isForeign(start, of) {
			c.Skip()
			e.edits = elements.Drop(e.edits, c.Offset())
			continue
		}
		elements.Keep(e.edits, start)
		e.element(c, of)
		elements.End = c.Offset()
	}
}

// isForeign reports whether the element at an offset has only members that are left out.
func (e *vertexEditor) isForeign(at int, of string) bool {
	c := rawjson.NewCursor(e.body[at:])
	if len(studioOnly[of]) == 0 || c.Kind() != rawjson.Object {
		return false
	}
	members, all := 0, true
	for key := range c.Object() {
		all = all && slices.Contains(studioOnly[of], camel(key))
		members++
		c.Skip()
	}
	if members == 0 || !all {
		return false
	}
	for key := range rawjson.NewCursor(e.body[at:]).Object() {
		e.drops(of, camel(key))
		break
	}
	return true
}

func (e *vertexEditor) element(c *rawjson.Cursor, of string) {
	if of == "contents" && c.Kind() == rawjson.Object {
		if _, _, found := rawjson.Find(e.body[c.Offset():], "role"); !found {
			e.roles = true
			at := c.Offset() + 1
			role := `"role":"user"`
			for range rawjson.NewCursor(e.body[c.Offset():]).Object() {
				role += ","
				break
			}
			e.edits = append(e.edits, rawjson.Edit{Start: at, End: at, New: []byte(role)})
		}
	}
	e.object(c, of)
}

// vertexCounted are the members of a request that countTokens of Vertex AI takes.
var vertexCounted = []string{"contents", "systemInstruction", "tools", "generationConfig"}

// VertexCount returns the body of countTokens of Vertex AI for one of the Gemini API, or for a request
// for an answer. It has no member that does not count.
func VertexCount(body []byte) []byte {
	w := rawjson.Writer{}
	w.Object()
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		name := camel(key)
		switch {
		case name == "generateContentRequest" && c.Kind() == rawjson.Object:
			return VertexCount(c.Raw())
		case slices.Contains(vertexCounted, name):
			w.Key(name).Raw(c.Raw())
		default:
			c.Skip()
		}
	}
	return w.EndObject().Buf
}

// DecodePublisherModels reads one page of the list of models of Vertex AI. Each has its name alone.
func DecodePublisherModels(body []byte) (models []perigee.Model, nextPage string, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, "", err
	}
	c := rawjson.NewCursor(body)
	read(c, nil, "nextPageToken", &nextPage, "publisherModels", each(c, &models, func(c *rawjson.Cursor) perigee.Model {
		var m perigee.Model
		read(c, nil, "name", &m.ID, "versionId", &m.Version)
		m.ID = m.ID[strings.LastIndexByte(m.ID, '/')+1:]
		return m
	}))
	return models, nextPage, c.Err()
}
