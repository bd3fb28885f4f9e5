package accounttests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

type object = map[string]any

// A dialectRig is a dialect in which a question is asked, whole or streamed.
type dialectRig struct {
	name string
	path func(model string, stream bool) string
	body func(model, text string, stream bool) object
	// end is what the last piece of a stream has in it.
	end string
	// apology takes an error apart; ok says that it has the shape that clients of the dialect
	// expect.
	apology func(o object) (message string, ok bool)
}

var dialectRigs = []dialectRig{
	{
		name: "gemini", end: `"finishReason"`,
		path: func(model string, stream bool) string {
			if stream {
				return "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
			}
			return "/v1beta/models/" + model + ":generateContent"
		},
		body: func(_, text string, _ bool) object {
			return object{"contents": []any{object{"role": "user", "parts": []any{object{"text": text}}}}}
		},
		apology: func(o object) (string, bool) {
			e, _ := o["error"].(object)
			message, _ := e["message"].(string)
			_, code := e["code"].(float64)
			_, status := e["status"].(string)
			return message, code && status
		},
	},
	{
		name: "chat", end: "data: [DONE]",
		path: func(string, bool) string { return "/v1/chat/completions" },
		body: func(model, text string, stream bool) object {
			return object{"model": model, "stream": stream, "messages": []any{object{"role": "user", "content": text}}}
		},
		apology: typedError,
	},
	{
		name: "responses", end: "response.completed",
		path: func(string, bool) string { return "/v1/responses" },
		body: func(model, text string, stream bool) object {
			return object{"model": model, "stream": stream, "store": false, "input": text}
		},
		apology: func(o object) (string, bool) {
			if o["type"] == "error" {
				message, ok := o["message"].(string)
				return message, ok
			}
			return typedError(o)
		},
	},
	{
		name: "messages", end: "message_stop",
		path: func(string, bool) string { return "/v1/messages" },
		body: func(model, text string, stream bool) object {
			return object{"model": model, "stream": stream, "max_tokens": 500, "messages": []any{object{"role": "user", "content": text}}}
		},
		apology: func(o object) (string, bool) {
			message, ok := typedError(o)
			return message, ok && o["type"] == "error"
		},
	},
}

func typedError(o object) (string, bool) {
	e, _ := o["error"].(object)
	message, _ := e["message"].(string)
	_, typed := e["type"].(string)
	return message, typed
}

// A reply is what came of a question.
type reply struct {
	dialectRig *dialectRig
	stream     bool
	status     int
	header     http.Header
	body       string
}

// patient is for calls that wait for other calls on purpose.
var patient = &http.Client{Transport: daemontest.Client.Transport, Timeout: 3 * await.Limit}

// askIn asks a question.
func askIn(ctx context.Context, base string, d *dialectRig, stream bool, model, text string) (*reply, error) {
	body, err := json.Marshal(d.body(model, text, stream))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+d.path(model, stream), strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	if d.name == "messages" {
		req.Header.Set("anthropic-version", "2023-06-01")
	}
	resp, err := patient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return &reply{dialectRig: d, stream: stream, status: resp.StatusCode, header: resp.Header, body: string(raw)}, err
}

// answered reports whether it is a whole answer.
func (r *reply) answered() bool {
	if r.status != http.StatusOK {
		return false
	}
	if r.stream {
		return strings.Contains(r.body, r.dialectRig.end) && r.failure() == nil
	}
	return strings.Contains(r.body, "the answer is")
}

// failure is the error in a stream.
func (r *reply) failure() object {
	for line := range strings.Lines(r.body) {
		data, ok := strings.CutPrefix(line, "data: ")
		var o object
		if !ok || json.Unmarshal([]byte(data), &o) != nil {
			continue
		}
		if e, ok := o["error"].(object); ok && e != nil || o["type"] == "error" {
			return o
		}
	}
	return nil
}

// explains says what is wrong with the error that it should be; empty means nothing.
func (r *reply) explains() string {
	var o object
	if r.status == http.StatusOK && r.stream {
		if o = r.failure(); o == nil {
			return "the stream neither ends nor says why"
		}
	} else if err := json.Unmarshal([]byte(r.body), &o); err != nil {
		return err.Error()
	} else if r.header.Get("X-Perigee-Class") == "" {
		return "it has no class"
	}
	message, ok := r.dialectRig.apology(o)
	switch {
	case !ok:
		return "it is not in the shape of " + r.dialectRig.name
	case message == "":
		return "it says nothing"
	case r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") == "":
		return "it does not say when to come back"
	}
	return ""
}

func (r *reply) String() string {
	return fmt.Sprintf("%s, stream %v: %d %s, retry after %q: %s", r.dialectRig.name, r.stream, r.status, r.header.Get("X-Perigee-Class"), r.header.Get("Retry-After"), r.body)
}
