package simulator

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee/internal/simulator/anthropic"
	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/rules"
)

// messagesWire is the Messages API of Anthropic.
type messagesWire struct {
	signer anthropic.Signer
	cache  anthropic.Cache

	threadMu sync.Mutex
	threads  map[string][]byte // requests with their answers, by the ID of the answer
	order    []string
}

// maxThreads limits the threads that are kept; the oldest are removed first.
const maxThreads = 256

func newMessages(key []byte) *messagesWire { return &messagesWire{signer: anthropic.Signer{Key: key}} }

// matches reports whether a request is for this API. The lists of models of two providers have one
// path; a request for this one has the header of its version.
func (m *messagesWire) matches(r *http.Request) bool {
	switch path := r.URL.Path; {
	case path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/") || path == "/api/hello":
		return true
	case path == "/v1/models" || strings.HasPrefix(path, "/v1/models/"):
		return r.Header.Get("anthropic-version") != ""
	}
	return false
}

// clear forgets cached prompts and threads.
func (m *messagesWire) clear() {
	m.cache.Clear()
	m.threadMu.Lock()
	defer m.threadMu.Unlock()
	m.threads, m.order = nil, nil
}

func (m *messagesWire) thread(id string) ([]byte, bool) {
	m.threadMu.Lock()
	defer m.threadMu.Unlock()
	body, found := m.threads[id]
	return body, found
}

func (m *messagesWire) keepThread(id string, body []byte) {
	m.threadMu.Lock()
	defer m.threadMu.Unlock()
	if m.threads == nil {
		m.threads = map[string][]byte{}
	}
	if _, known := m.threads[id]; !known {
		m.order = append(m.order, id)
	}
	m.threads[id] = body
	if len(m.order) > maxThreads {
		delete(m.threads, m.order[0])
		m.order = m.order[1:]
	}
}

func (m *messagesWire) key(r *http.Request) string {
	if key := r.Header.Get("x-api-key"); key != "" {
		return key
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

// owner returns the owner of cached prompts: the organization of the key, or the key itself when any
// key is accepted.
func (m *messagesWire) owner(x *exchange) string {
	if x.key != nil {
		return cmp.Or(x.key.Organization, x.key.Name)
	}
	return m.key(x.r)
}

func (m *messagesWire) model(r *http.Request, body []byte) string {
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/models/"); ok {
		return id
	}
	var head struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &head) // the rules refuse a body that is not JSON
	return head.Model
}

func (m *messagesWire) serve(x *exchange) {
	m.identify(x)
	path := x.r.URL.Path
	if path == "/api/hello" {
		x.writeValue(map[string]string{"message": "hello"})
		return
	}
	if sent := m.key(x.r); sent == "" || !x.knownKey(sent) {
		text := "invalid x-api-key"
		if sent == "" {
			text = "x-api-key header is required"
		}
		m.refuse(x, anthropic.NewRefusal(http.StatusUnauthorized, "auth.key", "%s", text))
		return
	}
	if x.strikeAuth() {
		return
	}
	id, single := strings.CutPrefix(path, "/v1/models/")
	switch {
	case x.r.Method == http.MethodPost && path == "/v1/messages":
		m.create(x)
	case x.r.Method == http.MethodPost && path == "/v1/messages/count_tokens":
		m.count(x)
	case x.r.Method == http.MethodGet && path == "/v1/models":
		m.listModels(x)
	case x.r.Method == http.MethodGet && single:
		m.getModel(x, id)
	case path == "/v1/messages" || path == "/v1/messages/count_tokens" || path == "/v1/models" || single:
		m.refuse(x, anthropic.NewRefusal(http.StatusMethodNotAllowed, "route.method", "Method Not Allowed"))
	default:
		m.refuse(x, anthropic.NewRefusal(http.StatusNotFound, "route.path", "Not Found"))
	}
}

// identify sets the headers that every answer has.
func (m *messagesWire) identify(x *exchange) {
	x.w.Header().Set("request-id", m.requestID(x))
	organization := hmac.New(sha256.New, x.server.signer.key)
	organization.Write([]byte("organization"))
	sum := organization.Sum(nil)
	x.w.Header().Set("anthropic-organization-id", hex.EncodeToString(sum[:4])+"-"+hex.EncodeToString(sum[4:6])+"-4"+hex.EncodeToString(sum[6:8])[1:]+"-a"+
		hex.EncodeToString(sum[8:10])[1:]+"-"+hex.EncodeToString(sum[10:16]))
}

// requestID returns the ID of the request. Equal requests have equal IDs.
func (m *messagesWire) requestID(x *exchange) string {
	h := hmac.New(sha256.New, x.server.signer.key)
	h.Write([]byte("request\x00" + x.r.Method + x.r.URL.RequestURI() + "\x00"))
	h.Write(x.body)
	return "req_011C" + new(big.Int).SetBytes(h.Sum(nil)).Text(62)[:20]
}

// refuse writes an error of the API's own rules.
func (m *messagesWire) refuse(x *exchange, r *anthropic.Refusal) {
	x.call.Rule = r.Rule
	problem{status: r.Status, body: r.Body(m.requestID(x))}.write(x.w)
}

// check applies the rules to a request.
func (m *messagesWire) check(x *exchange, method anthropic.Method) (*anthropic.Request, bool) {
	r, refusal := anthropic.Check(anthropic.Input{Method: method, Body: x.body, Version: x.r.Header.Get("anthropic-version"),
		Betas: betasOf(x.r), Signer: m.signer, Thread: m.thread})
	if refusal != nil {
		m.refuse(x, refusal)
		return nil, false
	}
	return r, true
}

// betasOf returns the betas of a request.
func betasOf(r *http.Request) (betas []string) {
	for _, line := range r.Header.Values("anthropic-beta") {
		for _, name := range strings.Split(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				betas = append(betas, name)
			}
		}
	}
	return betas
}

func (m *messagesWire) count(x *exchange) {
	r, ok := m.check(x, anthropic.Count)
	if !ok || x.strikeSmall(stageModel) {
		return
	}
	x.writeValue(map[string]int{"input_tokens": r.Tokens})
}

func (m *messagesWire) create(x *exchange) {
	if x.strike(stageModel, stageModel) {
		return
	}
	r, ok := m.check(x, anthropic.Create)
	if !ok || x.strike(stageCapacity, stageCapacity) || x.strike(stageQuota, stageQuota) {
		return
	}
	now := x.server.now()
	if refused := x.people.spendKey(x.key, r.Model.ID, now); refused != nil {
		x.writeError(refused)
		return
	}
	c := x.compose(r.Model.ID, conversation(r))
	charge := m.cache.Charge(r, m.owner(x), now)
	m.rateHeaders(x, r.Model.ID, charge.Input, now)
	message := anthropic.NewMessage(r, &c.Reply, charge)
	if r.Thread {
		m.keepThread(message.ID(), r.Answered(message.Content()))
	}
	if r.Stream {
		x.sendEvents(c, message.Events())
		return
	}
	x.sendBody(c, message.Whole())
}

// Limits of a key without limits of its own, per minute.
const (
	requestsPerMinute     = 4000
	inputTokensPerMinute  = 2_000_000
	outputTokensPerMinute = 400_000
)

// rateHeaders reports the limits of the key. Tokens are rounded to thousands.
func (m *messagesWire) rateHeaders(x *exchange, model string, input int, now time.Time) {
	limit, used := requestsPerMinute, 1
	if x.key != nil && x.key.Limits.PerMinute > 0 {
		limit, used = x.key.Limits.PerMinute, 0
		x.people.mu.Lock()
		if use := x.key.models[model]; use != nil {
			used = len(use.recent)
		}
		x.people.mu.Unlock()
	}
	left := max(inputTokensPerMinute-input, 0) / 1000 * 1000
	for _, kind := range []struct {
		name             string
		limit, remaining int
	}{
		{"requests", limit, limit - used},
		{"input-tokens", inputTokensPerMinute, left},
		{"output-tokens", outputTokensPerMinute, outputTokensPerMinute},
		{"tokens", inputTokensPerMinute + outputTokensPerMinute, left + outputTokensPerMinute},
	} {
		prefix := "anthropic-ratelimit-" + kind.name
		x.w.Header().Set(prefix+"-limit", strconv.Itoa(kind.limit))
		x.w.Header().Set(prefix+"-remaining", strconv.Itoa(kind.remaining))
		x.w.Header().Set(prefix+"-reset", now.Add(time.Minute).UTC().Format(time.RFC3339))
	}
}

// conversation returns the request in the form from which answers are composed.
func conversation(r *anthropic.Request) *rules.Parsed {
	p := &rules.Parsed{System: r.System, TextBytes: r.Tokens * bytesPerToken}
	names := map[string]string{}
	for _, turn := range r.Messages {
		if turn.Role == "system" {
			continue
		}
		content := rules.Content{Role: "user"}
		if turn.Role == "assistant" {
			content.Role = "model"
		}
		for _, b := range turn.Blocks {
			content.Parts = append(content.Parts, partOf(b, names))
		}
		p.Contents = append(p.Contents, content)
	}
	for _, t := range r.Tools {
		if t.Schema != nil || runsOnClient(t.Type) {
			p.Functions = append(p.Functions, rules.Function{Name: t.Name, Description: t.Description, Parameters: t.Schema, JSONSchema: true})
		} else {
			p.BuiltIns = append(p.BuiltIns, cmp.Or(t.Name, t.Type))
		}
	}
	switch r.Choice {
	case "any":
		p.ToolMode = "ANY"
	case "tool":
		p.ToolMode, p.AllowedNames = "ANY", []string{r.Chosen}
	case "none":
		p.ToolMode = "NONE"
	}
	p.Config.MaxTokens, p.Config.Stop = int64(min(r.MaxTokens, r.Model.Context-r.Tokens+1)), r.Stop
	p.Config.Thinking.Include = r.Thinks()
	if r.Format != nil {
		p.Config.ResponseMIME, p.Config.ResponseJSON = "application/json", r.Format
	}
	return p
}

// runsOnClient reports whether a tool that the provider defines is run by the client.
func runsOnClient(kind string) bool {
	return slices.ContainsFunc([]string{"bash_2", "text_editor_2", "memory_2", "computer_2"}, func(p string) bool { return strings.HasPrefix(kind, p) })
}

// partOf translates a block. names has the tools of the calls so far, by the ID of the call.
func partOf(b anthropic.Block, names map[string]string) rules.Part {
	switch b.Type {
	case "text":
		return rules.Part{Text: b.Text, HasText: true}
	case "thinking":
		return rules.Part{Text: b.Text, HasText: true, Thought: true}
	case "tool_use", "server_tool_use":
		names[b.ID] = b.Name
		return rules.Part{Call: &rules.Call{ID: b.ID, Name: b.Name, Args: b.Input}}
	case "tool_result":
		var texts []string
		response := &rules.Response{ID: b.ID, Name: names[b.ID]}
		for _, inner := range b.Result {
			if inner.Type == "text" {
				texts = append(texts, inner.Text)
			} else {
				response.Parts = append(response.Parts, partOf(inner, names))
			}
		}
		response.Response = encode(strings.Join(texts, "\n"))
		return rules.Part{Response: response}
	case "image", "document":
		return rules.Part{Blob: &rules.Blob{MIME: b.MediaType(), Data: b.Data()}}
	}
	return rules.Part{Other: b.Type}
}

// problem writes an error of the shared code.
func (m *messagesWire) problem(x *exchange, e *statusError) problem {
	m.identify(x)
	refusal := m.translate(x, e)
	refusal.Message = cmp.Or(e.Custom, refusal.Message)
	p := problem{status: refusal.Status, body: refusal.Body(m.requestID(x))}
	wait := e.Delay
	if wait == 0 && (e.Rule == "fault.rate_limit" || e.Rule == "fault.capacity_429") {
		wait = time.Second
	}
	if refusal.Status == http.StatusTooManyRequests {
		m.rateHeaders(x, x.call.Model, 0, x.server.now())
	}
	if refusal.Status == http.StatusTooManyRequests && wait > 0 {
		p.header = map[string]string{"retry-after": strconv.Itoa(int(math.Ceil(wait.Seconds())))}
	}
	return p
}

// translate returns the error of this API that is nearest to an error of the shared code.
func (m *messagesWire) translate(x *exchange, e *statusError) *anthropic.Refusal {
	status, text := e.HTTP, e.Message
	switch strings.TrimPrefix(e.Rule, "fault.") {
	case "quota.per_minute", "quota.per_day", "rate_limit", "bare_429":
		text = "This request would exceed your organization's rate limit. For details, refer to: https://docs.claude.com/en/api/rate-limits"
	case "capacity_429":
		text = "This request would exceed your organization's maximum usage increase rate. Please scale up your usage more gradually."
	case "quota_exhausted":
		text = "You have reached the monthly spend limit of your usage tier."
	case "insufficient_quota", "insufficient_credits":
		status, text = http.StatusBadRequest, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
	case "payment_402":
		text = "There's an issue with your billing or payment information."
	case "body.size", "too_large_413":
		status, text = http.StatusRequestEntityTooLarge, "Request exceeds the maximum size"
	case "unauthorized", "invalid_grant":
		status, text = http.StatusUnauthorized, "invalid x-api-key"
	case "banned":
		text = "This organization has been disabled."
	case "validation_required", "forbidden", "service_disabled":
		text = "Your API key does not have permission to use the specified resource."
	case "not_found", "version_too_old":
		text = "model: " + cmp.Or(x.call.Model, "unknown")
	case "capacity", "overloaded_529", "error_mid_stream":
		status, text = 529, "Overloaded"
	case "too_long":
		model, _ := anthropic.FindModel(strings.Replace(x.call.Model, "@", "-", 1))
		text = "prompt is too long: " + strconv.Itoa(model.Context+1) + " tokens > " + strconv.Itoa(model.Context) + " maximum"
	case "timeout_408", "deadline_504":
		text = "Request timed out"
	case "unavailable_503":
		text = "Service unavailable"
	case "internal_500", "array_error":
		text = "Internal server error"
	}
	return anthropic.NewRefusal(status, e.Rule, "%s", text)
}

func (m *messagesWire) streamProblem(x *exchange, e *statusError) []completion.Event {
	return []completion.Event{{Name: "error", Data: m.problem(x, e).body}}
}
