package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An mcpSession is a connection of the Go SDK to perigee's MCP server.
type mcpSession struct {
	*mcp.ClientSession
	cmd      *exec.Cmd // nil over HTTP
	stderr   *lockedBuffer
	progress chan string // messages of progress; full: further ones are dropped
}

// A lockedBuffer is written by a process and read by a scenario.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(data)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// withKey sends a key with every request.
type withKey string

func (key withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	return http.DefaultTransport.RoundTrip(r)
}

// Revisions of the protocol. Over HTTP, the older one has sessions.
const (
	mcpModern = "2026-07-28"
	mcpLegacy = "2025-11-25"
)

// connect starts the command, or connects to the URL.
func (m *mcpServer) connect(ctx context.Context, revision string) (*mcpSession, error) {
	s := &mcpSession{stderr: &lockedBuffer{}, progress: make(chan string, 100)}
	client := mcp.NewClient(&mcp.Implementation{Name: "perigee-e2e", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			select {
			case s.progress <- r.Params.Message:
			default:
			}
		},
	})
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: m.url, HTTPClient: &http.Client{Transport: withKey(m.key)}}
	if m.url == "" {
		s.cmd = exec.Command(m.command[0], m.command[1:]...)
		for key, value := range m.env {
			s.cmd.Env = append(s.cmd.Env, key+"="+value)
		}
		s.cmd.Stderr = s.stderr
		transport = &mcp.CommandTransport{Command: s.cmd}
	}
	var err error
	if s.ClientSession, err = client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision}); err != nil {
		return nil, fmt.Errorf("connect to the MCP server: %w: %s", err, firstLines(s.stderr.String(), 5))
	}
	if got := s.InitializeResult().ProtocolVersion; got != revision {
		return nil, fmt.Errorf("the server speaks %s, not %s", got, revision)
	}
	return s, nil
}

// An mcpAnswer is the structured result of ask_antigravity.
type mcpAnswer struct {
	Text, Conversation, Status, Source string
}

// ask calls ask_antigravity.
func (s *mcpSession) ask(ctx context.Context, arguments object) (mcpAnswer, error) {
	params := &mcp.CallToolParams{Name: "ask_antigravity", Arguments: arguments}
	params.SetProgressToken(newToken())
	result, err := s.CallTool(ctx, params)
	if err != nil {
		return mcpAnswer{}, fmt.Errorf("ask_antigravity: %w: %s", err, lastBytes(s.stderr.String(), 500))
	}
	var answer mcpAnswer
	encoded, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(encoded, &answer)
	}
	if err != nil || result.IsError {
		return answer, fmt.Errorf("ask_antigravity answers %s, %v", encodeJSON(result), err)
	}
	return answer, nil
}

// asksFor has a new word answered, and checks everything about it.
func (s *mcpSession) asksFor(ctx context.Context, source string) (mcpAnswer, error) {
	wanted := newToken()
	answer, err := s.ask(ctx, object{"prompt": inHalves(wanted)})
	if err != nil {
		return answer, err
	}
	text := strings.TrimPrefix(answer.Text, simulatedLine+"\n")
	if text != wanted || answer.Source != source || answer.Status != "done" || answer.Conversation == "" || (text == answer.Text) == (source == "simulator") {
		return answer, fmt.Errorf("asked for %s of %s, the answer is %+v", wanted, source, answer)
	}
	return answer, nil
}

// asksInARow has words answered, each in a new conversation.
func (s *mcpSession) asksInARow(ctx context.Context, source string, n int) error {
	conversations := map[string]bool{}
	for i := range n {
		answer, err := s.asksFor(ctx, source)
		if err != nil {
			return fmt.Errorf("ask %d: %w", i+1, err)
		}
		conversations[answer.Conversation] = true
	}
	if len(conversations) != n {
		return fmt.Errorf("%d asks had %d conversations", n, len(conversations))
	}
	return nil
}

// asksAtOnce has words answered at the same time, each several times in a row.
func (s *mcpSession) asksAtOnce(ctx context.Context, source string, n, rounds int) error {
	results := make([]error, n)
	var together sync.WaitGroup
	for i := range n {
		together.Go(func() { results[i] = s.asksInARow(ctx, source, rounds) })
	}
	together.Wait()
	return cmp.Or(results...)
}
