package antigravity

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// The types of requests that the API distinguishes.
const (
	typeAgent  = "agent"
	typeImage  = "image_gen"
	typeSearch = "web_search"
)

// ResponseMember is the member of an answer, or of a chunk of a stream, that holds the answer of
// the model.
const ResponseMember = "response"

// An envelope is the object around a request.
type envelope struct {
	Project   string
	Model     string
	Type      string
	RequestID string // empty if none is sent
	CLI       bool   // the plainer form: project, model and request only
}

// Wrap returns the bytes before and after the request. Equal requests give equal bytes except for
// the request id, which is in the bytes before.
func (e envelope) Wrap() (before, after []byte) {
	w := rawjson.Writer{Buf: make([]byte, 0, 256)}
	w.Object().Key("project").String(e.Project).Key("model").String(e.Model)
	if !e.CLI {
		w.Members(`"userAgent":"antigravity"`).Key("requestType").String(e.Type)
		if e.RequestID != "" {
			w.Key("requestId").String(e.RequestID)
		}
	}
	return w.Key("request").Buf, []byte{'}'}
}

// unwrap returns the answer inside its envelope. An answer without an envelope is returned
// unchanged.
func unwrap(data []byte) []byte {
	c := rawjson.NewCursor(data)
	if c.Kind() != rawjson.Object {
		return data
	}
	for key := range c.Object() {
		if string(key) == ResponseMember && c.Kind() == rawjson.Object {
			return c.Raw()
		}
	}
	return data
}

// requestID identifies one attempt of a call, in the form of a UUID. It is derived from the id of
// the call, so that the logs of both sides can be compared.
func requestID(call string, attempt int) string {
	sum := sha256.Sum256([]byte("request " + strconv.Itoa(attempt) + " " + call))
	sum[6] = sum[6]&0x0F | 0x40
	sum[8] = sum[8]&0x3F | 0x80
	h := hex.EncodeToString(sum[:16])
	return "agent-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// sessionID identifies a conversation, so that the API finds its prompt cache. It is the same for
// all turns: it is derived from the session that the client names, or else from the user's first
// text.
func sessionID(client perigee.Client, p *perigee.Prompt) string {
	from := client.Session
	if from == "" {
		from = firstText(p)
	}
	sum := sha256.Sum256([]byte("session " + client.Key + "\x00" + from))
	return "-" + strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>1, 10)
}

// firstText returns the first text of the user.
func firstText(p *perigee.Prompt) string {
	for i := range p.Contents {
		if p.Contents[i].Role == perigee.RoleModel {
			continue
		}
		for j := range p.Contents[i].Parts {
			if part := &p.Contents[i].Parts[j]; part.Kind == perigee.PartText && !part.Text.Empty() {
				return rawjson.Unescaped(part.Text.Form())
			}
		}
	}
	return ""
}

// withSession returns the prompt with a session id, unless the client has set one.
func withSession(p *perigee.Prompt, session string) *perigee.Prompt {
	if session == "" || p.Extra.Get("sessionId") != nil {
		return p
	}
	e := p.Edit()
	field := perigee.Field{Name: "sessionId", Value: rawjson.AppendString(nil, session)}
	e.Extra = append(e.Extra[:len(e.Extra):len(e.Extra)], field)
	return e.Prompt
}
