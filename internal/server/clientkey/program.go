package clientkey

import (
	"net/http"
	"strings"
	"unicode"

	"perigee"
)

// ProgramOf names the program that sends a request, from its User-Agent:
// "GeminiCLI/0.61.0/gemini-2.5-pro (linux)".
func ProgramOf(r *http.Request) perigee.Client {
	agent, _, _ := strings.Cut(r.UserAgent(), " ")
	name, rest, _ := strings.Cut(agent, "/")
	version, _, _ := strings.Cut(rest, "/")
	return perigee.Client{Name: printable(name, maxAgent), Version: printable(version, maxAgent), Session: firstOf(r.Header, sessionHeaders),
		Agent: firstOf(r.Header, agentHeaders), ParentAgent: firstOf(r.Header, parentHeaders)}
}

// Bounds of names that clients send.
const (
	maxAgent   = 64
	maxSession = 128
)

// sessionHeaders are the headers in which clients name their conversation, in order of precedence:
// the one that users can set, then the headers of Claude Code, Codex (in three generations),
// OpenCode and Amp.
var sessionHeaders = []string{
	"X-Session-Id", "X-Claude-Code-Session-Id", "Session-Id", "Session_id", "Thread-Id", "Thread_id", "Conversation_id",
	"X-Opencode-Session", "X-Session-Affinity", "X-Amp-Thread-Id",
}

// agentHeaders and parentHeaders are the headers in which Claude Code and Codex name the agent that
// sends a request, and Claude Code the agent that started that one.
var (
	agentHeaders  = []string{"X-Claude-Code-Agent-Id", "X-Openai-Subagent"}
	parentHeaders = []string{"X-Claude-Code-Parent-Agent-Id"}
)

// firstOf returns the first of the headers that has a value. A conversation that is named there takes
// precedence over a name in the body.
func firstOf(h http.Header, names []string) string {
	for _, name := range names {
		if value := printable(h.Get(name), maxSession); value != "" {
			return value
		}
	}
	return ""
}

func printable(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}
