package thoughtsig

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// The keys of entries. SCOPE is OWNER or OWNER.CONVERSATION, in digests; OWNER is empty for clients
// without a key.
//
//	c:SCOPE:ID           the signature of a call, by its id; c#SCOPE:DIGEST for unsuitable ids
//	b:SCOPE:ID           the thinking before a call, likewise
//	t:KIND:SCOPE:DIGEST  the signature of a text
//	h:KIND:SCOPE:DIGEST  the signature of a thought: a model may answer with a thought that it had
//	o:OWNER:DIGEST       the kind of a thought, also of one without a signature
//	s:DIGEST             the kind of a signature, for all clients
//	m:OWNER              the client got an answer of another provider in the Gemini API
//
// KIND is the provider of the reasoning.
const (
	callPrefix     = "c"
	thoughtsPrefix = "b"
)

const (
	longID    = 100 // of a call; longer ones are digested
	shortText = 200 // shorter ones occur in many conversations
)

// A scope is the part of keys other than the id or text: the client, the conversation and the kind
// of signature.
type scope struct {
	perigee.Reasoning
	owner        string
	prompt       *perigee.Prompt // nil if the request was not decoded
	conversation string          // empty if not computed yet
	sums         *sumCache       // has the tags of conversations; nil if they are computed each time
}

func newScope(client perigee.Client, prompt *perigee.Prompt, of perigee.Reasoning) *scope {
	s := &scope{Reasoning: of, prompt: prompt}
	if client.Key != "" {
		s.owner = digest(client.Key)[:tagLength]
	}
	return s
}

// signs reports whether the models sign thinking, if thinking is true, or texts and calls.
func (s *scope) signs(thinking bool) bool {
	return s.Provider != "" && (thinking || s.Form == perigee.ReasoningInParts)
}

// tagLength is the length of the digests of owner and conversation in a key. Owners are few, and
// conversations are compared only within one owner, so 64 bits are enough.
const tagLength = 16

// callKey and thoughtsKey return keys of an id, or "" for an id that may be counted from one if the
// conversation is not known.
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
	if s.isUnknown() {
		return ""
	}
	return prefix + mark + s.owner + "." + s.conversationTag() + ":" + name
}

// textKey returns the key of a text, or "" if the text is only white space, or too short to be found
// in a conversation that is not known.
func (s *scope) textKey(kind perigee.EventKind, text textSum) string {
	prefix := "t:"
	if kind == perigee.EventThinking {
		prefix = "h:"
	}
	if text.size == 0 || text.size < shortText && s.isUnknown() {
		return ""
	}
	key := make([]byte, 0, 96) // on the stack
	key = append(append(append(key, prefix...), s.Provider...), ':')
	key = append(key, s.owner...)
	if text.size < shortText {
		key = append(append(key, '.'), s.conversationTag()...)
	}
	return string(hex.AppendEncode(append(key, ':'), text.digest[:]))
}

// originKey returns the key of the kind of a thought, or "" if the thought is only white space. It is
// the same in all conversations, because a request that is forwarded is not decoded.
func (s *scope) originKey(text textSum) string {
	if text.size == 0 {
		return ""
	}
	return "o:" + s.owner + ":" + hex.EncodeToString(text.digest[:])
}

// mixedKey returns the key of the mark of a client that needs its requests in the Gemini API looked
// at.
func (s *scope) mixedKey() string { return "m:" + s.owner }

func signatureKey(value string) string { return "s:" + digest(value) }

// storable reports whether every store accepts a text unchanged: PostgreSQL refuses a whole batch
// for a zero byte.
func storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// isUnique reports whether no other call can have the same id: Claude's ids are unique, and so are
// the ids that a watch assigns. Other ids may be counted from one in each conversation.
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

// isUnknown reports whether the conversation is not known: the request was not decoded.
func (s *scope) isUnknown() bool { return s.prompt == nil && s.conversation == "" }

// conversationTag returns a digest of the beginning of a conversation, which is the same for all
// its requests.
func (s *scope) conversationTag() string {
	if s.conversation != "" {
		return s.conversation
	}
	var tag [tagLength / 2]byte
	if s.sums == nil {
		s.digestBeginning(tag[:])
	} else {
		hash := s.hashBeginning(s.sums.seed)
		sum, ok := s.sums.get(hash)
		if !ok {
			s.digestBeginning(sum.digest[:len(tag)])
			s.sums.put(sumSlot{hash, sum})
		}
		copy(tag[:], sum.digest[:])
	}
	s.conversation = hex.EncodeToString(tag[:])
	return s.conversation
}

// beginning calls yield with the texts that identify a conversation: the first part of the system
// instruction, because dialects append later instructions of the client, and the texts of the
// user's first message.
func (s *scope) beginning(yield func(t perigee.Text)) {
	if s.prompt.System != nil && len(s.prompt.System.Parts) > 0 {
		yield(s.prompt.System.Parts[0].Text)
	}
	for i := range s.prompt.Contents {
		c := &s.prompt.Contents[i]
		if c.Role == perigee.RoleModel {
			continue
		}
		for j := range c.Parts {
			if c.Parts[j].Kind == perigee.PartText {
				yield(c.Parts[j].Text)
			}
		}
		break
	}
}

// digestBeginning fills tag with the first bytes of the digest. It unescapes the texts, which takes
// most of its time.
func (s *scope) digestBeginning(tag []byte) {
	hash := sha256.New()
	mark := make([]byte, 0, 2*sample+32)
	s.beginning(func(t perigee.Text) {
		text := rawjson.Unescaped(t.Form())
		mark = strconv.AppendInt(mark[:0], int64(len(text)), 10)
		mark = append(mark, ':')
		mark = append(mark, text[:min(len(text), sample)]...)
		mark = append(mark, text[max(0, len(text)-sample):]...)
		hash.Write(mark)
	})
	copy(tag, hash.Sum(mark[:0]))
}

// hashBeginning returns the key of the conversation in a sumCache.
func (s *scope) hashBeginning(seed maphash.Seed) uint64 {
	var hash maphash.Hash
	hash.SetSeed(seed)
	s.beginning(func(t perigee.Text) { maphash.WriteComparable(&hash, t) })
	return hash.Sum64()
}

// release drops the prompt, which may be large, after computing the tag of the conversation.
func (s *scope) release() {
	if s.Provider != "" && s.prompt != nil {
		s.conversationTag()
	}
	s.prompt = nil
}

// sample is the number of bytes at each end of a text that, with its length, identify a
// conversation.
const sample = 1 << 10

// plausible reports whether a signature that is not remembered may be of a kind. Claude's
// signatures are a protobuf message that begins with its second field, in base64 once or twice.
// Gemini's cannot be distinguished from them, and no signature is better than a rejected one.
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
