package standin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The body of a call of streamGenerateContent, in the order of the real one: requestId is near the
// start.

type envelope struct {
	Project     string     `json:"project"`
	RequestID   string     `json:"requestId"`
	Request     generation `json:"request"`
	Model       string     `json:"model"`
	UserAgent   string     `json:"userAgent"`
	RequestType string     `json:"requestType"`
}

type generation struct {
	Contents          []content         `json:"contents"`
	SystemInstruction *content          `json:"systemInstruction,omitempty"`
	Tools             []tool            `json:"tools,omitempty"`
	ToolConfig        *toolConfig       `json:"toolConfig,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Config            generationConfig  `json:"generationConfig"`
	SessionID         string            `json:"sessionId"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Thought   bool            `json:"thought,omitempty"`
	Text      *string         `json:"text,omitempty"`
	Inline    *inlineData     `json:"inlineData,omitempty"`
	Call      json.RawMessage `json:"functionCall,omitempty"`
	Response  json.RawMessage `json:"functionResponse,omitempty"`
	Signature string          `json:"thoughtSignature,omitempty"`
}

type inlineData struct {
	MIME string `json:"mimeType"`
	Data string `json:"data"`
}

// A tool is one function: the real client never puts two into one element.
type tool struct {
	Functions []function `json:"functionDeclarations"`
}

type toolConfig struct {
	Calling struct {
		Mode string `json:"mode"`
	} `json:"functionCallingConfig"`
}

type generationConfig struct {
	MaxOutputTokens int       `json:"maxOutputTokens"`
	Thinking        *thinking `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	Include bool `json:"includeThoughts"`
	Budget  int  `json:"thinkingBudget"`
}

func newToolConfig(mode string) *toolConfig {
	c := &toolConfig{}
	c.Calling.Mode = mode
	return c
}

// configure returns the generation config for a model.
func (m cloudModel) configure() generationConfig {
	config := generationConfig{MaxOutputTokens: 16384}
	if m.MaxOutputTokens > 0 {
		config.MaxOutputTokens = m.MaxOutputTokens
	}
	if m.SupportsThinking {
		config.Thinking = &thinking{Include: true, Budget: m.ThinkingBudget}
	}
	return config
}

// wrapUser returns the text of a user in the form that the model sees. The settings are sent once.
func wrapUser(text, settings string) string {
	wrapped := "<USER_REQUEST>\n" + text + "\n</USER_REQUEST>\n<ADDITIONAL_METADATA>\nThe current local time is: " +
		time.Now().Format(time.RFC3339) + ".\n</ADDITIONAL_METADATA>"
	if settings != "" {
		wrapped += "\n<USER_SETTINGS_CHANGE>\n" + settings + "\n</USER_SETTINGS_CHANGE>"
	}
	return wrapped
}

func userContent(text, settings string, media ...part) content {
	return content{Role: "user", Parts: append([]part{{Text: new(wrapUser(text, settings))}}, media...)}
}

// A chunk is an event of an answer.
type chunk struct {
	Response struct {
		Candidates []struct {
			Content content `json:"content"`
			Finish  string  `json:"finishReason"`
		} `json:"candidates"`
		Feedback struct {
			BlockReason string `json:"blockReason"`
		} `json:"promptFeedback"`
		Usage        *usage `json:"usageMetadata"`
		ModelVersion string `json:"modelVersion"`
		ResponseID   string `json:"responseId"`
	} `json:"response"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	Prompt     uint64 `json:"promptTokenCount"`
	Candidates uint64 `json:"candidatesTokenCount"`
	Thoughts   uint64 `json:"thoughtsTokenCount"`
	Cached     uint64 `json:"cachedContentTokenCount"`
}

// An answer is the part of an answer that has arrived.
type answer struct {
	parts        []part
	finish       string
	usage        usage
	modelVersion string
	responseID   string
	firstChunk   time.Time
}

// take adds a part. Texts of one kind become one part; a signature that comes after its text
// belongs to it.
func (a *answer) take(p part) {
	last := len(a.parts) - 1
	switch {
	case p.Text != nil && last >= 0 && a.parts[last].Text != nil && a.parts[last].Thought == p.Thought && a.parts[last].Signature == "":
		a.parts[last].Text = new(*a.parts[last].Text + *p.Text)
		a.parts[last].Signature = p.Signature
	case p.Text != nil && *p.Text == "" && p.Signature == "":
	default:
		a.parts = append(a.parts, p)
	}
}

func (a *answer) text(thought bool) string {
	var b strings.Builder
	for _, p := range a.parts {
		if p.Text != nil && p.Thought == thought {
			b.WriteString(*p.Text)
		}
	}
	return b.String()
}

// signature returns the last signature of the thoughts.
func (a *answer) signature() string {
	found := ""
	for _, p := range a.parts {
		if p.Signature != "" && p.Call == nil {
			found = p.Signature
		}
	}
	return found
}

var errBroken = errors.New("the stream of the model ended before its answer did")

// stream makes a call and shows the answer as it grows. Calls that the cloud refuses for a moment
// are repeated.
func (c *cloud) stream(ctx context.Context, body envelope, show func(*answer)) (*answer, error) {
	for try := 0; ; try++ {
		a, err := c.streamOnce(ctx, body, show)
		var refused *cloudError
		if err == nil || a != nil || !errors.As(err, &refused) || try >= c.p.retries ||
			refused.status != http.StatusTooManyRequests && refused.status != http.StatusServiceUnavailable {
			return a, err
		}
		c.p.log.warn("streamGenerateContent failed, trying again: %v", err)
		if !sleep(ctx, 50*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// streamOnce returns nil with an error of a call that had no answer, and the part that came of an
// answer that broke off.
func (c *cloud) streamOnce(ctx context.Context, body envelope, show func(*answer)) (*answer, error) {
	c.mu.Lock()
	body.Project = c.project
	c.mu.Unlock()
	body.UserAgent, body.Request.SessionID = "antigravity", c.session
	response, err := c.post(ctx, "streamGenerateContent", "alt=sse", body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, readCloudError(response)
	}
	a := &answer{}
	err = readEvents(response.Body, func(data []byte) error {
		var event chunk
		if err := json.Unmarshal(data, &event); err != nil {
			return fmt.Errorf("failed to parse an event of the model: %w", err)
		}
		if event.Error != nil {
			return newCloudError(0, data)
		}
		if a.firstChunk.IsZero() {
			a.firstChunk = time.Now()
		}
		a.add(event)
		if reason := event.Response.Feedback.BlockReason; reason != "" {
			return fmt.Errorf("the model refused the request: %s", reason)
		}
		show(a)
		return nil
	})
	if err == nil && a.finish == "" {
		err = errBroken
	}
	return a, err
}

func (a *answer) add(event chunk) {
	r := event.Response
	if r.Usage != nil {
		a.usage = *r.Usage
	}
	if r.ModelVersion != "" {
		a.modelVersion = r.ModelVersion
	}
	if r.ResponseID != "" {
		a.responseID = r.ResponseID
	}
	if len(r.Candidates) == 0 {
		return
	}
	for _, p := range r.Candidates[0].Content.Parts {
		a.take(p)
	}
	if r.Candidates[0].Finish != "" {
		a.finish = r.Candidates[0].Finish
	}
}

// readEvents calls handle with the data of each event.
func readEvents(r io.Reader, handle func(data []byte) error) error {
	lines := bufio.NewReader(r)
	var data []byte
	for {
		line, err := lines.ReadBytes('\n')
		ended := err == io.EOF
		if err != nil && !ended {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if field, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(field, []byte(" "))...)
		}
		if (len(line) == 0 || ended) && data != nil {
			if err := handle(data); err != nil {
				return err
			}
			data = nil
		}
		if ended {
			return nil
		}
	}
}
