package thoughtsig

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee"
)

// The keys of what is remembered. SCOPE is OWNER or OWNER.CONVERSATION, in digests; OWNER is empty
// for clients without a key.
//
//	c:SCOPE:ID           the signature of a call, by its id; c#SCOPE:DIGEST for ids that are no good as a key
//	b:SCOPE:ID           the thinking before a call, likewise
//	t:KIND:SCOPE:DIGEST  the signature of a text
//	h:KIND:SCOPE:DIGEST  the signature of a thought: a model may answer with a thought that it had
//	s:DIGEST             the kind of a signature; global, because the digest is of the signature itself
const (
	callPrefix     = "c"
	thoughtsPrefix = "b"
)

const (
	longID    = 100 // of a call; longer ones are digested
	shortText = 200 // shorter ones occur in many conversations
)

// A scope is what keys depend on beside the id or text: the client, the conversation and the kind
// of signature.
type scope struct {
	kind         string // of signature; empty: the model has none
	owner        string
	prompt       *perigee.Prompt
	conversation string // empty: not computed yet
}

func newScope(client perigee.Client, prompt *perigee.Prompt, kind string) *scope {
	s := &scope{kind: kind, prompt: prompt}
	if client.Key != "" {
		s.owner = digest(client.Key)[:tagLength]
	}
	return s
}

// signs says whether the models sign thinking, or else texts and calls. Claude signs thinking only.
func (s *scope) signs(thinking bool) bool {
	return s.kind != "" && (thinking || s.kind != claude)
}

// tagLength is the length of the digests of owner and conversation in a key. Owners are few, and
// conversations are compared only within one owner, so 64 bits are enough.
const tagLength = 16

func (s *scope) callKey(id string) string     { return s.idKey(callPrefix, id) }
func (s *scope) thoughtsKey(id string) string { return s.idKey(thoughtsPrefix, id) }

func (s *scope) idKey(prefix, id string) string {
	mark, name := ":", id
	if len(id) > longID || !storable(id) {
		mark, name = "#", digest(id)
	}
	if isUnique(id) {
		return prefix + mark + s.owner + ":" + name
	}
	return prefix + mark + s.owner + "." + s.conversationTag() + ":" + name
}

// textKey is empty for a text that is nothing but white space.
func (s *scope) textKey(kind perigee.EventKind, text *textDigest) string {
	if text.size == 0 {
		return ""
	}
	key := "t:"
	if kind == perigee.EventThinking {
		key = "h:"
	}
	key += s.kind + ":" + s.owner
	if text.size < shortText {
		key += "." + s.conversationTag()
	}
	return key + ":" + hex.EncodeToString(text.sum())
}

func signatureKey(value string) string { return "s:" + digest(value) }

// storable returns whether every store takes a text as it is: PostgreSQL refuses a whole batch for
// a zero byte.
func storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// isUnique returns whether no other call can have the same id: Claude's ids are unique, and so are
// those that a watch assigns. Other ids may be counted from one in each conversation.
func isUnique(id string) bool {
	if rest, ok := strings.CutPrefix(id, "toolu_"); ok {
		return len(rest) >= 16
	}
	rest, ok := strings.CutPrefix(id, "call_")
	if !ok {
		return false
	}
	request, number, ok := strings.Cut(rest, "_")
	if !ok || len(request) < 16 {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 32)
	return err == nil
}

// conversationTag is the same for all requests of a conversation: a digest of what it began with.
// Of the system instruction that is the first part, since dialects append what the client says to
// the model later on.
func (s *scope) conversationTag() string {
	if s.conversation != "" {
		return s.conversation
	}
	hash := sha256.New()
	mark := make([]byte, 0, 2*sample+32)
	write := func(text string) {
		mark = strconv.AppendInt(mark[:0], int64(len(text)), 10)
		mark = append(mark, ':')
		mark = append(mark, text[:min(len(text), sample)]...)
		mark = append(mark, text[max(0, len(text)-sample):]...)
		hash.Write(mark)
	}
	if s.prompt.System != nil && len(s.prompt.System.Parts) > 0 {
		write(s.prompt.System.Parts[0].Text)
	}
	for i := range s.prompt.Contents {
		c := &s.prompt.Contents[i]
		if c.Role == perigee.RoleModel {
			continue
		}
		for j := range c.Parts {
			if c.Parts[j].Kind == perigee.PartText {
				write(c.Parts[j].Text)
			}
		}
		break
	}
	s.conversation = hex.EncodeToString(hash.Sum(mark[:0]))[:tagLength]
	return s.conversation
}

// release drops the prompt, which may be large, and keeps the tag of the conversation.
func (s *scope) release() {
	if s.kind != "" {
		s.conversationTag()
	}
	s.prompt = nil
}

// sample is how many bytes of each end of a text, with its length, identify a conversation. The
// cost does not grow with the text.
const sample = 1 << 10

// plausible says whether a signature that is not remembered may be of a kind. Claude's are base64
// once or twice around a protobuf message that begins with its second field. Gemini's cannot be
// told from Claude's, and no signature is better than one that is rejected.
func plausible(signature, kind string) bool {
	if kind != claude || len(signature) < shortest {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(signature[:8])
	if err != nil {
		return false
	}
	return raw[0] == 'E' || raw[0] == 0x12
}

// shortest is the length of the shortest signature that a provider was seen to issue.
const shortest = 50
