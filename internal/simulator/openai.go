package simulator

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

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
	return w.profile.StreamError(failure)
}

// refuse answers with an error of the rules.
func (w *openAIWire) refuse(x *exchange, e *openai.Error) {
	x.call.Rule = e.Rule
	w.encodeError(e).write(x.w)
}

func (w *openAIWire) serve(x *exchange) {
	sum := sha256.Sum256(append([]byte(x.r.Method+x.r.URL.Path+"\x00"), x.body...))
	x.w.Header().Set("X-Request-Id", "req_"+base62(sum[:], 32))
	if answer := w.native(x.r); answer != nil {
		x.writeValue(answer)
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
	path, _ := w.profile.Path(x.r.URL.Path)
	if id, one := strings.CutPrefix(path, "models/"); one || path == "models" {
		w.only(x, http.MethodGet, func() { w.models(x, id, one) })
		return
	}
	switch path {
	case "chat/completions":
		w.only(x, http.MethodPost, func() { w.chat(x) })
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
		return x.key.Name
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
	return true
}

func (w *openAIWire) chat(x *exchange) {
	if x.strike(stageModel, stageModel) {
		return
	}
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
