package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A call is one thing that a client asks for.
type call struct {
	tag        string
	dialect    *dialect
	model      string
	key        clientKey
	chunks     int
	stream     bool
	tools      bool
	large      bool // about 1 MB
	leaves     bool // the client goes away in the middle
	slow       bool // the client reads slowly
	socket     bool // over a WebSocket
	store      bool
	background bool
	previous   string // the response that this one goes on from

	began, over time.Time
	answer      answer
	verdict     outcome
	why         string
}

// A clientKey is a key of the configuration, or one that is not there.
type clientKey struct {
	name, secret string
	settings     string // further members of its entry
	wrong        bool
	kind         bool // the provider does not lie to it, so that its calls can be counted
}

const (
	keyRPM         = 30
	keyConcurrency = 2
	keyTokens      = 800
)

var clientKeys = []clientKey{
	{name: "ada", secret: "chaos-key-of-ada-1234"},
	{name: "ben", secret: "chaos-key-of-ben-1234"},
	{name: "cleo", secret: "chaos-key-of-cleo-123", settings: `, models: ["gemini-*"]`},
	{name: "rpm", secret: "chaos-key-with-an-rpm", settings: fmt.Sprintf(", rpm: %d", keyRPM), kind: true},
	{name: "places", secret: "chaos-key-of-few-places", settings: fmt.Sprintf(", concurrency: %d", keyConcurrency), kind: true},
	{name: "tokens", secret: "chaos-key-of-few-tokens", settings: fmt.Sprintf(", tokens_per_day: %d", keyTokens), kind: true},
	{name: "none", wrong: true},
	{name: "wrong", secret: "chaos-key-that-is-wrong", wrong: true},
}

// keyShares says how many of a hundred calls each key makes.
var keyShares = []int{30, 30, 24, 4, 6, 3, 1, 2}

var modelNames = []string{"gemini-3-flash", "gemini-3-flash", "gemini-2.5-pro", "gemini-2.5-flash"}

// newCall draws a call.
func newCall(tag string, random *rand.Rand, previous func(key string) string) *call {
	chance := func(percent int) bool { return random.IntN(100) < percent }
	c := &call{
		tag: tag, model: modelNames[random.IntN(len(modelNames))], chunks: 1 + random.IntN(12),
		stream: chance(65), tools: chance(20), large: chance(3), leaves: chance(6), slow: chance(4),
	}
	n := random.IntN(100)
	for i, share := range keyShares {
		if n -= share; n < 0 {
			c.key = clientKeys[i]
			break
		}
	}
	c.dialect = []*dialect{geminiAPI, chatAPI, responses, responses, messages}[random.IntN(5)]
	if c.dialect == responses {
		c.store = chance(60) && !c.large
		c.background = c.store && chance(15)
		c.socket = !c.background && chance(25)
		if c.store && chance(30) {
			c.previous = previous(c.key.name)
		}
		if c.background {
			c.stream, c.leaves = false, false
		}
		c.stream = c.stream || c.socket
	}
	if c.key.kind || c.key.wrong {
		c.leaves, c.slow, c.background = false, false, false
	}
	return c
}

// prompt tells the provider what to answer.
func (c *call) prompt() string {
	form, mood := "text", "any"
	if c.tools {
		form = "call"
	}
	if c.key.kind {
		mood = "kind"
	}
	ask := fmt.Sprintf("%s%s %d %s %s ", askWord, c.tag, c.chunks, form, mood)
	if c.large {
		return strings.Repeat("a large request has many words ", 1<<20/31) + ask
	}
	return ask
}

func (c *call) String() string {
	how := []string{c.dialect.name, c.model, "key " + c.key.name}
	for _, trait := range []struct {
		name string
		has  bool
	}{
		{"streamed", c.stream}, {"tools", c.tools}, {"1 MB", c.large}, {"leaves", c.leaves}, {"slow reader", c.slow},
		{"socket", c.socket}, {"stored", c.store}, {"background", c.background}, {"after " + c.previous, c.previous != ""},
	} {
		if trait.has {
			how = append(how, trait.name)
		}
	}
	return c.tag + " (" + strings.Join(how, ", ") + ")"
}
