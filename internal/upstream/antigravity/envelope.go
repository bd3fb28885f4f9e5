package antigravity

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/models"
	"perigee/internal/rawjson"
	"perigee/internal/upstream/wire"
)

// The kinds of requests that the gateway tells apart.
const (
	typeAgent  = "agent"
	typeImage  = "image_gen"
	typeSearch = "web_search"
)

// An envelope is what the gateway wants around a request.
type envelope struct {
	project   string
	model     string
	kind      string // requestType
	requestID string
	cli       bool // the plainer form: project, model and request only
}

// around returns what stands before and behind the request. Equal requests give equal bytes but for the id of the
// attempt, which stands before them.
func (e envelope) around() (before, behind []byte) {
	before = make([]byte, 0, 256)
	member := func(name, value string) {
		before = append(before, '"')
		before = append(before, name...)
		before = append(before, `":`...)
		before = rawjson.AppendString(before, value)
		before = append(before, ',')
	}
	before = append(before, '{')
	member("project", e.project)
	member("model", e.model)
	if !e.cli {
		member("userAgent", "antigravity")
		member("requestType", e.kind)
		if e.requestID != "" {
			member("requestId", e.requestID)
		}
	}
	return append(before, `"request":`...), []byte{'}'}
}

// requestType is the kind of a question to a model.
func requestType(spec models.Spec) string {
	if spec.Family == models.Image {
		return typeImage
	}
	return typeAgent
}

// requestID names one attempt of a call, in the form of a UUID. It follows from the call's own id, so that both logs can
// be laid side by side.
func requestID(call string, attempt int) string {
	sum := sha256.Sum256([]byte("request " + strconv.Itoa(attempt) + " " + call))
	sum[6] = sum[6]&0x0F | 0x40
	sum[8] = sum[8]&0x3F | 0x80
	h := hex.EncodeToString(sum[:16])
	return "agent-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// sessionID names the conversation, so that the gateway finds what it has cached of it. It must not change from turn to
// turn: it follows from what the client calls its session, or else from how the conversation began.
func sessionID(client perigee.Client, p *perigee.Prompt) string {
	hash := sha256.New()
	hash.Write([]byte("session " + client.Key + "\x00"))
	if client.Session != "" {
		hash.Write([]byte(client.Session))
	} else {
		hash.Write([]byte(firstWords(p)))
	}
	n := binary.BigEndian.Uint64(hash.Sum(nil)) >> 1
	return "-" + strconv.FormatUint(n, 10)
}

// firstWords is the first text of the user's.
func firstWords(p *perigee.Prompt) string {
	for i := range p.Contents {
		if p.Contents[i].Role == perigee.RoleModel {
			continue
		}
		for j := range p.Contents[i].Parts {
			if part := &p.Contents[i].Parts[j]; part.Kind == perigee.PartText && part.Text != "" {
				return part.Text
			}
		}
	}
	return ""
}

// encode writes a prepared prompt as the gateway's request, into a room of package wire. Drawing and searching have no session.
func encode(p *perigee.Prompt, session string) []byte {
	room := wire.Room(dialect.RequestSize(p))
	if session == "" || p.Extra.Get("sessionId") != nil {
		return dialect.AppendRequest(room, p)
	}
	named := *p
	named.Extra = append(named.Extra[:len(named.Extra):len(named.Extra)],
		perigee.Field{Name: "sessionId", Value: rawjson.AppendString(nil, session)})
	return dialect.AppendRequest(room, &named)
}
