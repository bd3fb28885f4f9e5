package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/rules"
)

const (
	bytesPerToken    = completion.BytesPerToken
	inputMediaTokens = 258  // one image or file in a prompt
	imageTokens      = 1290 // one image in an answer
	// Without a session the provider looks for a common beginning only in prompts of this size.
	implicitCacheFloor = 1024
)

// tokens returns the estimate that all counts use: four bytes a token, rounded up.
func tokens(bytes int) int { return completion.Tokens(bytes) }

func promptTokens(p *rules.Parsed) int {
	media := 0
	for _, c := range p.Contents {
		media += mediaOf(c.Parts)
	}
	return max(tokens(p.TextBytes)+media*inputMediaTokens, 1)
}

func mediaOf(parts []rules.Part) int {
	n := 0
	for _, p := range parts {
		if p.Blob != nil || p.File != nil {
			n++
		}
		if p.Response != nil {
			n += mediaOf(p.Response.Parts)
		}
	}
	return n
}

func contentBytes(c rules.Content) int {
	n := 0
	for _, p := range c.Parts {
		n += len(p.Text)
		if p.Call != nil {
			n += len(p.Call.Name) + len(p.Call.Args)
		}
		if p.Response != nil {
			n += len(p.Response.Name) + len(p.Response.Response)
		}
	}
	return n
}

// maxPrefixes bounds the cache; the oldest go first.
const maxPrefixes = 8192

// promptCache records the starts of prompts, as the provider does to charge less for them.
type promptCache struct {
	mu    sync.Mutex
	seen  map[string]bool
	order []string
}

func (c *promptCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.order = nil, nil
}

// cached returns the number of tokens at the start of the prompt that came before in the same
// session (or, without a session, anywhere, if they are many). The last content is never counted,
// because it is new.
func (c *promptCache) cached(model string, p *rules.Parsed) int {
	head := struct {
		Model, Session, System string
		Functions              []rules.Function
		BuiltIns               []string
	}{model, p.SessionID, p.System, p.Functions, p.BuiltIns}
	inContents := 0
	for _, content := range p.Contents {
		inContents += contentBytes(content)
	}
	size := max(p.TextBytes-inContents, 0)
	chain := sha256.Sum256(encode(head))

	c.mu.Lock()
	defer c.mu.Unlock()
	found := 0
	for _, content := range p.Contents {
		if c.seen[hex.EncodeToString(chain[:])] {
			found = tokens(size)
		}
		c.remember(hex.EncodeToString(chain[:]))
		size += contentBytes(content) + mediaOf(content.Parts)*inputMediaTokens*bytesPerToken
		encoded, _ := json.Marshal(content)
		chain = sha256.Sum256(append(chain[:], encoded...))
	}
	c.remember(hex.EncodeToString(chain[:]))
	if p.SessionID == "" && found < implicitCacheFloor {
		return 0
	}
	return found
}

func (c *promptCache) remember(prefix string) {
	if c.seen[prefix] {
		return
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[prefix] = true
	c.order = append(c.order, prefix)
	if len(c.order) > maxPrefixes {
		delete(c.seen, c.order[0])
		c.order = c.order[1:]
	}
}
