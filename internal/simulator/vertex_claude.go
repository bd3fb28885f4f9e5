package simulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"perigee/internal/simulator/anthropic"
	"perigee/internal/simulator/completion"
)

// claudeWire is Claude at Vertex AI: the Messages API behind the credentials, projects and locations
// of Google. Either of them refuses a request in its own form.
type claudeWire struct {
	messages messagesWire // its prompt cache is not Anthropic's
}

// claudeLocations are the locations that have Claude.
var claudeLocations = []string{"global", "us", "eu", "us-east5", "europe-west1", "asia-southeast1"}

// countModel takes the place of the model in the path of a count.
const countModel = "count-tokens"

func (c *claudeWire) matches(r *http.Request) bool {
	p, ok := readVertexPath(r.URL.Path)
	return ok && p.publisher == "anthropic"
}

// key is empty: there are access tokens only.
func (c *claudeWire) key(*http.Request) string { return "" }

func (c *claudeWire) model(r *http.Request, body []byte) string {
	p, _ := readVertexPath(r.URL.Path)
	if p.model != countModel {
		return p.model
	}
	return c.messages.model(r, body)
}

func (c *claudeWire) serve(x *exchange) {
	p, _ := readVertexPath(x.r.URL.Path)
	if p.project == "" || x.r.Method != http.MethodPost || p.method != "rawPredict" && p.method != "streamRawPredict" {
		writeNotFoundPage(x.w)
		return
	}
	if refused := x.admitVertex(p); refused != nil {
		c.refuseGoogle(x, refused)
		return
	}
	if x.strikeAuth() || !x.parsableFor(c.refuseGoogle) || x.strike(stageModel, stageModel) {
		return
	}
	_, known := anthropic.FindVertexModel(p.model)
	if !known && p.model != countModel || !slices.Contains(claudeLocations, p.location) {
		c.refuseGoogle(x, publisherModelMissing(p))
		return
	}
	x.w.Header().Set("request-id", c.requestID(x))
	method := anthropic.Create
	if p.model == countModel {
		method = anthropic.Count
	}
	r, refusal := anthropic.CheckVertex(anthropic.Input{Method: method, Body: x.body, Betas: betasOf(x.r), Signer: x.server.messages.signer}, p.model)
	switch {
	case refusal != nil:
		x.call.Rule = refusal.Rule
		problem{status: refusal.Status, body: refusal.Body(c.requestID(x))}.write(x.w)
	case method == anthropic.Count:
		if !x.strikeSmall(stageCapacity) {
			x.writeValue(map[string]int{"input_tokens": r.Tokens})
		}
	case !x.strike(stageCapacity, stageCapacity) && !x.strike(stageQuota, stageQuota):
		c.answer(x, p, r)
	}
}

func (c *claudeWire) answer(x *exchange, p vertexPath, r *anthropic.Request) {
	reply := x.compose(r.Model.ID, conversation(r))
	message := anthropic.NewMessage(r, &reply.Reply, c.messages.cache.Charge(r, p.project, x.server.now()))
	if r.Stream {
		x.sendEvents(reply, message.Events())
		return
	}
	x.sendBody(reply, message.Whole())
}

// refuseGoogle writes an error of Google, which answers before Anthropic does.
func (c *claudeWire) refuseGoogle(x *exchange, e *statusError) {
	x.call.Rule = e.Rule
	c.google(e).write(x.w)
}

func (c *claudeWire) google(e *statusError) problem {
	return problem{status: e.HTTP, header: map[string]string{"Content-Type": "application/json; charset=UTF-8"}, body: encode(e.body())}
}

func (c *claudeWire) requestID(x *exchange) string {
	return strings.Replace(c.messages.requestID(x), "req_", "req_vrtx_", 1)
}

// anthropicFaults are the faults that Anthropic answers; the rest is Google's.
var anthropicFaults = []string{"overloaded_529", "capacity", "error_mid_stream", "too_long", "internal_500", "array_error", "timeout_408"}

func (c *claudeWire) problem(x *exchange, e *statusError) problem {
	if !slices.Contains(anthropicFaults, strings.TrimPrefix(e.Rule, "fault.")) {
		return c.google(e)
	}
	refusal := c.messages.translate(x, e)
	if e.Rule == "fault.too_long" {
		refusal.Message = anthropic.VertexTooLong
	}
	refusal.Message = cmp.Or(e.Custom, refusal.Message)
	x.w.Header().Set("request-id", c.requestID(x))
	return problem{status: refusal.Status, body: refusal.Body(c.requestID(x))}
}

func (c *claudeWire) streamProblem(x *exchange, e *statusError) []completion.Event {
	return []completion.Event{{Name: "error", Data: json.RawMessage(c.problem(x, e).body)}}
}
