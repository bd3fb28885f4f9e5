package simulator

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"image"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/openai"
)

// Profiles lists the values of Options.Profile. The first is the default.
func Profiles() []string { return openai.Profiles() }

// openAIWire serves the APIs of OpenAI in the way of one profile.
type openAIWire struct {
	profile *openai.Profile
	sealer  openai.Sealer
	store   openai.Store
}

// newOpenAI returns nil if there is no such profile.
func newOpenAI(profile string, key []byte) *openAIWire {
	w := &openAIWire{profile: openai.ProfileNamed(profile), sealer: openai.Sealer{Key: key}}
	if w.profile == nil {
		return nil
	}
	return w
}

func (w *openAIWire) matches(r *http.Request) bool {
	_, ok := w.profile.Path(r.URL.Path)
	return ok || w.native(r) != nil
}

// native returns the answer of a path that only this server has, or nil.
func (w *openAIWire) native(r *http.Request) any {
	switch w.profile.Name + " " + r.Method + " " + r.URL.Path {
	case "llamacpp GET /props":
		return w.profile.Properties()
	case "llamacpp GET /health":
		return map[string]string{"status": "ok"}
	case "lmstudio GET /api/v1/models":
		return w.profile.NativeModels()
	}
	return nil
}

func (w *openAIWire) key(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return strings.TrimSpace(token)
	}
	if w.profile.Name == "azure" {
		return r.Header.Get("Api-Key")
	}
	return ""
}

func (w *openAIWire) model(r *http.Request, body []byte) string {
	var request struct {
		Model string `json:"model"`
	}
	if path, _ := w.profile.Path(r.URL.Path); strings.HasPrefix(path, "models/") {
		return strings.TrimPrefix(path, "models/")
	}
	_ = json.Unmarshal(body, &request)
	return request.Model
}

func (w *openAIWire) problem(x *exchange, e *statusError) problem {
	return w.encodeError(openai.Shared(e.Rule, e.Custom, e.Delay))
}

func (w *openAIWire) encodeError(e *openai.Error) problem {
	return problem{status: e.Status, header: w.profile.Header(e), body: w.profile.Encode(e)}
}

func (w *openAIWire) streamProblem(x *exchange, e *statusError) []completion.Event {
	failure := openai.Shared(e.Rule, e.Custom, e.Delay)
	var request struct {
		Stream bool `json:"stream"`
	}
	_ = json.Unmarshal(x.body, &request) // the rules have accepted it
	if path, _ := w.profile.Path(x.r.URL.Path); path == "responses" {
		return w.profile.ResponseError(failure, request.Stream, x.sent)
	}
	return w.profile.StreamError(failure, request.Stream)
}

// refuse answers with an error of the rules.
func (w *openAIWire) refuse(x *exchange, e *openai.Error) {
	x.call.Rule = e.Rule
	w.encodeError(e).write(x.w)
}

func (w *openAIWire) serve(x *exchange) {
	sum := sha256.Sum256(append([]byte(x.r.Method+x.r.URL.Path+"\x00"), x.body...))
	x.w.Header().Set("X-Request-Id", "req_"+base62(sum[:], 32))
	for name, value := range w.profile.Headers(base62(sum[:], 20)) {
		x.w.Header().Set(name, value)
	}
	if answer := w.native(x.r); answer != nil {
		x.writeValue(answer)
		return
	}
	path, _ := w.profile.Path(x.r.URL.Path)
	if path == "models" && w.profile.Public {
		if !x.strikeAuth() {
			w.only(x, http.MethodGet, func() { w.models(x, "", false) })
		}
		return
	}
	sent := x.sentKey()
	optional := w.profile.Keyless && len(x.people.keys) == 0
	if !x.knownKey(sent) || sent == "" && !optional {
		w.refuse(x, openai.NoKey(sent != ""))
		return
	}
	if x.strikeAuth() {
		return
	}
	if path == "key" {
		w.only(x, http.MethodGet, func() { x.writeValue(w.profile.KeyInfo()) })
		return
	}
	if id, one := strings.CutPrefix(path, "models/"); one || path == "models" {
		w.only(x, http.MethodGet, func() { w.models(x, id, one) })
		return
	}
	posts := map[string]func(*exchange){"chat/completions": w.chat, "embeddings": w.embeddings, "images/generations": w.images}
	if !w.profile.NoReplies {
		posts["responses"], posts["responses/input_tokens"] = w.respond, w.countInput
	}
	if w.profile.Timings {
		posts["chat/completions/input_tokens"] = w.countChat
	}
	id, stored := strings.CutPrefix(path, "responses/")
	switch serve, ok := posts[path]; {
	case ok:
		w.only(x, http.MethodPost, func() {
			if !x.strike(stageModel, stageModel) {
				serve(x)
			}
		})
	case stored && !w.profile.NoReplies && !strings.Contains(id, "/"):
		w.stored(x, id)
	default:
		w.refuse(x, openai.NoRoute(x.r.Method, x.r.URL.Path))
	}
}

func (w *openAIWire) only(x *exchange, method string, serve func()) {
	if x.r.Method != method {
		x.w.Header().Set("Allow", method)
		w.refuse(x, openai.NoMethod(x.r.Method))
		return
	}
	serve()
}

// org is the organization of the caller: of its key, or the key itself when any key is accepted.
func (w *openAIWire) org(x *exchange) string {
	if x.key != nil {
		return cmp.Or(x.key.Organization, x.key.Name)
	}
	return x.sentKey()
}

func (w *openAIWire) input(x *exchange) openai.Input {
	return openai.Input{Profile: w.profile, Body: x.body, Org: w.org(x), Sealer: w.sealer, Store: &w.store}
}

func (w *openAIWire) models(x *exchange, id string, one bool) {
	if x.strikeSmall(stageModel) {
		return
	}
	if !one {
		x.writeValue(w.profile.ModelList())
		return
	}
	if unescaped, err := url.PathUnescape(id); err == nil {
		id = unescaped
	}
	entry, refused := w.profile.ModelEntry(id)
	if refused != nil {
		w.refuse(x, refused)
		return
	}
	x.writeValue(entry)
}

// admitted runs what comes between the rules of a request and its answer.
func (w *openAIWire) admitted(x *exchange, model string) bool {
	if x.strike(stageCapacity, stageCapacity) || x.strike(stageQuota, stageQuota) {
		return false
	}
	if refused := x.people.spendKey(x.key, model, x.server.now()); refused != nil {
		x.writeError(refused)
		return false
	}
	if x.key != nil && x.key.Limits.PerMinute > 0 {
		limit := x.key.Limits.PerMinute
		x.people.mu.Lock()
		left := limit - len(x.key.models[model].recent)
		x.people.mu.Unlock()
		x.w.Header().Set("X-Ratelimit-Limit-Requests", strconv.Itoa(limit))
		x.w.Header().Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(left))
		x.w.Header().Set("X-Ratelimit-Reset-Requests", time.Minute.String())
	}
	return true
}

func (w *openAIWire) chat(x *exchange) {
	chat, refused := openai.CheckChat(w.input(x))
	if refused == nil {
		refused = chat.Fits(promptTokens(chat.Parsed))
	}
	if refused != nil {
		w.refuse(x, refused)
		return
	}
	if !w.admitted(x, chat.Model.ID) {
		return
	}
	reply := x.compose(cmp.Or(x.call.Model, chat.Model.ID), chat.Parsed)
	if refused := chat.Blocked(&reply.Reply); refused != nil {
		w.refuse(x, refused)
		return
	}
	if chat.Stream {
		x.sendEvents(reply, chat.Events(&reply.Reply))
		return
	}
	x.sendBody(reply, chat.Body(&reply.Reply))
}

// countChat is the count of llama.cpp.
func (w *openAIWire) countChat(x *exchange) {
	chat, refused := openai.CheckChat(w.input(x))
	if refused != nil {
		w.refuse(x, refused)
		return
	}
	if !x.strikeSmall(stageCapacity) {
		x.writeValue(map[string]int{"input_tokens": promptTokens(chat.Parsed)})
	}
}

func (w *openAIWire) respond(x *exchange) {
	request, refused := openai.CheckResponse(w.input(x), false)
	if refused == nil {
		refused = request.Fits(promptTokens(request.Parsed))
	}
	if refused != nil {
		w.refuse(x, refused)
		return
	}
	if !w.admitted(x, request.Model.ID) {
		return
	}
	reply := x.compose(x.call.Model, request.Parsed)
	if refused := request.Blocked(&reply.Reply); refused != nil {
		w.refuse(x, refused)
		return
	}
	if request.Stream {
		x.sendEvents(reply, request.Events(&reply.Reply))
		return
	}
	x.sendBody(reply, request.Body(&reply.Reply))
}

func (w *openAIWire) countInput(x *exchange) {
	request, refused := openai.CheckResponse(w.input(x), true)
	if refused != nil {
		w.refuse(x, refused)
		return
	}
	if !x.strikeSmall(stageCapacity) {
		x.writeValue(request.Count(promptTokens(request.Parsed)))
	}
}

// stored serves a response that was made earlier.
func (w *openAIWire) stored(x *exchange, id string) {
	if x.strikeSmall(stageModel) {
		return
	}
	switch x.r.Method {
	case http.MethodGet:
		body, refused := w.store.Get(w.org(x), id)
		if refused != nil {
			w.refuse(x, refused)
			return
		}
		x.writeValue(json.RawMessage(body))
	case http.MethodDelete:
		answer, refused := w.store.Delete(w.org(x), id)
		if refused != nil {
			w.refuse(x, refused)
			return
		}
		x.writeValue(answer)
	default:
		x.w.Header().Set("Allow", "GET, DELETE")
		w.refuse(x, openai.NoMethod(x.r.Method))
	}
}

func (w *openAIWire) embeddings(x *exchange) {
	request, refused := openai.CheckEmbeddings(w.input(x))
	if refused != nil {
		w.refuse(x, refused)
		return
	}
	if !w.admitted(x, request.Model.ID) || x.strikeSmall(stageReply) {
		return
	}
	var vectors [][]float64
	for _, text := range request.Texts {
		vectors = append(vectors, x.server.vector(request.Model.ID, text, request.Dimensions))
	}
	x.writeValue(json.RawMessage(request.Body(vectors)))
}

func (w *openAIWire) images(x *exchange) {
	request, refused := openai.CheckImages(w.input(x))
	if refused != nil {
		w.refuse(x, refused)
		return
	}
	if !w.admitted(x, request.Model.ID) || x.strikeSmall(stageReply) {
		return
	}
	var drawn []string
	for i := range request.Count {
		tone := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", x.server.seed, i, request.Prompt))
		drawn = append(drawn, plainImage(image.Pt(request.Width, request.Height), tone[:]))
	}
	x.writeValue(json.RawMessage(request.Body(x.server.now().Unix(), drawn)))
}
