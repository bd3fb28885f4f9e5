package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee"
)

// What is remembered has one of these keys. SCOPE is OWNER or OWNER.CONVERSATION, in digests; who presents no key has
// an empty OWNER.
//
//	c:SCOPE:ID           the seal of a call, by its id; c#SCOPE:DIGEST for ids that are no good as a key
//	b:SCOPE:ID           the thinking before a call, likewise
//	t:KIND:SCOPE:DIGEST  the seal of a text
//	h:KIND:SCOPE:DIGEST  the seal of a thought: a model may answer with a thought that it had
//	s:DIGEST             the kind of a seal, by itself: who has it need not be told apart
const (
	callPrefix     = "c"
	thoughtsPrefix = "b"
)

const (
	longID    = 100 // of a call; longer ones are digested
	shortText = 200 // shorter ones are said in many conversations
)

// A scope is what keys depend on beside what is remembered: who asks, in which conversation, which kind of model.
type scope struct {
	seal         string
	owner        string
	prompt       *perigee.Prompt
	conversation string // empty: nobody asked for it yet
}

func newScope(client perigee.Client, prompt *perigee.Prompt, seal string) *scope {
	s := &scope{seal: seal, prompt: prompt}
	if client.Key != "" {
		s.owner = digest(client.Key)[:tagLength]
	}
	return s
}

// seals says whether the models seal their thinking, or else what they say and call. Claude seals nothing but thinking.
func (s *scope) seals(thinking bool) bool {
	return s.seal != "" && (thinking || s.seal != claude)
}

// tagLength is that of an owner and of a conversation in a key. Owners have names that the configuration gives them,
// and conversations are told apart only within one owner: neither is worth more.
const tagLength = 16

func (s *scope) callKey(id string) string     { return s.idKey(callPrefix, id) }
func (s *scope) thoughtsKey(id string) string { return s.idKey(thoughtsPrefix, id) }

func (s *scope) idKey(prefix, id string) string {
	mark, name := ":", id
	if len(id) > longID || !storable(id) {
		mark, name = "#", digest(id)
	}
	if oneOfAKind(id) {
		return prefix + mark + s.owner + ":" + name
	}
	return prefix + mark + s.owner + "." + s.inConversation() + ":" + name
}

// textKey is empty for a text that is nothing but white space.
func (s *scope) textKey(kind perigee.EventKind, text *textDigest) string {
	if text.size == 0 {
		return ""
	}
	var buf [128]byte
	key := append(buf[:0], "t:"...)
	if kind == perigee.EventThinking {
		key[0] = 'h'
	}
	key = append(append(key, s.seal...), ':')
	key = append(key, s.owner...)
	if text.size < shortText {
		key = append(append(key, '.'), s.inConversation()...)
	}
	return string(hex.AppendEncode(append(key, ':'), text.sum()))
}

func sealKey(value string) string { return "s:" + digest(value) }

// storable says whether every store takes a text as it is: PostgreSQL refuses a whole batch for a zero byte.
func storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// oneOfAKind says whether the id of a call is certain to be of one call only: Claude's are, and those that a watch
// gives. Others may be counted from one in each conversation.
func oneOfAKind(id string) bool {
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

// inConversation is the same for all requests of a conversation: a digest of what it began with. Of the system
// instruction that is the first part, since dialects append what the client says to the model later on.
func (s *scope) inConversation() string {
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

// release drops the prompt, which may be large, and keeps the mark of the conversation.
func (s *scope) release() {
	if s.seal != "" {
		s.inConversation()
	}
	s.prompt = nil
}

// sample is how much of each end of a text tells conversations apart. With its length that is plenty, and the cost does
// not grow with what users paste into their first question.
const sample = 1 << 10

// plausible says whether a signature that we never saw may be believed to be of a kind. Claude's are base64 once or
// twice around a message that begins with its second field. Gemini's look like Claude's to anybody who cannot open
// them, and are better replaced by nothing than by one that is refused.
func plausible(signature, seal string) bool {
	if seal != claude || len(signature) < shortest {
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
