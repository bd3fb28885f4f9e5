package simulator

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/ollama"
)

// ollamaWire is Ollama's own API.
type ollamaWire struct {
	runners ollama.Runners
}

const jsonUTF8 = "application/json; charset=utf-8"

// defaultLoad is how long a model loads by the fault slow_load.
const defaultLoad = 30 * time.Second

func (o *ollamaWire) matches(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

// key identifies the caller for faults; the server itself needs no key.
func (o *ollamaWire) key(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

func (o *ollamaWire) model(_ *http.Request, body []byte) string {
	var request struct{ Model, Name string }
	_ = json.Unmarshal(body, &request) // the rules refuse a body that is not JSON
	return cmp.Or(request.Model, request.Name)
}

// ollamaRoutes are the methods and functions of the paths.
var ollamaRoutes = map[string]struct {
	method string
	serve  func(o *ollamaWire, x *exchange)
}{
	"/api/version":  {http.MethodGet, func(_ *ollamaWire, x *exchange) { x.writeOllama(map[string]string{"version": "0.40.0"}) }},
	"/api/tags":     {http.MethodGet, func(_ *ollamaWire, x *exchange) { x.writeOllama(ollama.Tags()) }},
	"/api/ps":       {http.MethodGet, func(o *ollamaWire, x *exchange) { x.writeOllama(o.runners.Running(x.server.now())) }},
	"/api/show":     {http.MethodPost, (*ollamaWire).show},
	"/api/chat":     {http.MethodPost, (*ollamaWire).chat},
	"/api/generate": {http.MethodPost, (*ollamaWire).generate},
	"/api/embed":    {http.MethodPost, (*ollamaWire).embed},
}

func (o *ollamaWire) serve(x *exchange) {
	x.framing = framingLines
	route, found := ollamaRoutes[x.r.URL.Path]
	head := route.method == http.MethodGet && x.r.Method == http.MethodHead
	switch {
	case !found:
		o.plain(x, http.StatusNotFound, "404 page not found")
	case route.method != x.r.Method && !head:
		x.w.Header().Set("Allow", route.method)
		o.plain(x, http.StatusMethodNotAllowed, "405 method not allowed")
	case x.strikeAuth():
	case route.method == http.MethodGet && x.strikeSmall(stageModel):
	default:
		route.serve(o, x)
	}
}

// plain answers a path or a method that the server does not have.
func (o *ollamaWire) plain(x *exchange, status int, text string) {
	x.w.Header().Set("Content-Type", "text/plain")
	x.w.WriteHeader(status)
	io.WriteString(x.w, text)
}

func (x *exchange) writeOllama(v any) {
	x.w.Header().Set("Content-Type", jsonUTF8)
	x.w.Write(encode(v))
}

// refuse writes an error of the server's own rules.
func (o *ollamaWire) refuse(x *exchange, r *ollama.Refusal) {
	x.call.Rule = r.Rule
	o.encodeError(r).write(x.w)
}

func (o *ollamaWire) encodeError(r *ollama.Refusal) problem {
	return problem{status: r.Status, header: map[string]string{"Content-Type": jsonUTF8}, body: r.Body()}
}

func (o *ollamaWire) show(x *exchange) {
	if x.strikeSmall(stageModel) {
		return
	}
	answer, refused := ollama.Show(x.body)
	if refused != nil {
		o.refuse(x, refused)
		return
	}
	x.writeOllama(answer)
}

func (o *ollamaWire) input(x *exchange) ollama.Input {
	return ollama.Input{Body: x.body, Runners: &o.runners, Now: x.server.now()}
}

// load waits for a model that has to be loaded, as long as the fault slow_load takes. It returns
// false if the client has disconnected.
func (o *ollamaWire) load(x *exchange, context int, took *time.Duration) bool {
	if x.call.Loaded = context; context == 0 {
		return true
	}
	*took = time.Second
	fault := x.struckAt(stageLoad, stageLoad)
	if fault == nil {
		return true
	}
	*took = cmp.Or(time.Duration(fault.Delay), defaultLoad)
	return x.server.sleep(x.r.Context(), *took) == nil
}

func (o *ollamaWire) chat(x *exchange) {
	if x.strike(stageModel, stageModel) {
		return
	}
	chat, refused := ollama.CheckChat(o.input(x))
	o.finish(x, chat, refused)
}

func (o *ollamaWire) generate(x *exchange) {
	if x.strike(stageModel, stageModel) {
		return
	}
	chat, refused := ollama.CheckGenerate(o.input(x))
	o.finish(x, chat, refused)
}

// finish answers a request, or refuses it.
func (o *ollamaWire) finish(x *exchange, chat *ollama.Chat, refused *ollama.Refusal) {
	if chat != nil {
		x.call.Ignored = chat.Ignored
		for _, name := range chat.Ignored {
			x.server.logger.Warn("Ollama ignores a member of a request", "member", name)
		}
		if !o.load(x, chat.Loaded, &chat.Load) {
			return
		}
	}
	switch {
	case refused != nil:
		o.refuse(x, refused)
		return
	case chat.Ended != "":
		x.writeOllama(json.RawMessage(chat.Empty(x.server.now())))
		return
	case x.strike(stageCapacity, stageCapacity) || x.strike(stageQuota, stageQuota):
		return
	}
	reply := x.compose(chat.Model.Name, chat.Parsed)
	if chat.Stream {
		x.sendEvents(reply, chat.Events(&reply.Reply))
		return
	}
	x.sendBody(reply, chat.Whole(&reply.Reply))
}

func (o *ollamaWire) embed(x *exchange) {
	if x.strike(stageModel, stageModel) {
		return
	}
	request, refused := ollama.CheckEmbed(o.input(x))
	if refused != nil {
		o.refuse(x, refused)
		return
	}
	x.call.Ignored = request.Ignored
	if !o.load(x, request.Loaded, &request.Load) || x.strikeSmall(stageCapacity) {
		return
	}
	var vectors [][]float64
	for _, text := range request.Texts {
		vectors = append(vectors, x.server.vector(request.Model.Name, text, request.Size))
	}
	x.writeOllama(request.Body(vectors))
}

// ollamaErrors are the errors of the code that all APIs share, by the rule that identifies them.
var ollamaErrors = map[string]ollama.Refusal{
	"body.size":          {Status: http.StatusBadRequest, Message: "http: request body too large"},
	"fault.unauthorized": {Status: http.StatusUnauthorized, Message: "unauthorized", SignIn: "https://ollama.com/connect?name=simulator&key=c2ltdWxhdG9y"},
	"fault.not_found":    {Status: http.StatusNotFound, Message: "model '%s' not found"},
	"fault.rate_limit":   {Status: http.StatusTooManyRequests, Message: "you've reached your hourly usage limit, please upgrade to continue"},
	"fault.capacity":     {Status: http.StatusServiceUnavailable, Message: "server busy, please try again.  maximum pending requests exceeded"},
	"fault.too_long":     {Status: http.StatusBadRequest, Message: "the input length exceeds the context length"},
	"fault.internal_500": {Status: http.StatusInternalServerError, Message: stoppedRunner},
	"fault.array_error":  {Status: http.StatusInternalServerError, Message: stoppedRunner},
	"fault.deadline_504": {Status: http.StatusBadGateway, Message: "remote model is unavailable"},
	"fault.payment_402":  {Status: http.StatusPaymentRequired, Message: "this model requires a subscription, upgrade for access: https://ollama.com/upgrade"},
	"fault.forbidden":    {Status: http.StatusForbidden, Message: "ollama cloud is disabled: remote model is unavailable"},
	"fault.error_mid_stream": {Status: http.StatusInternalServerError,
		Message: "an error was encountered while running the model: unexpected EOF"},
}

const stoppedRunner = "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, check ollama server logs for details"

func (o *ollamaWire) translate(x *exchange, e *statusError) *ollama.Refusal {
	r, known := ollamaErrors[e.Rule]
	if !known {
		r = ollama.Refusal{Status: e.HTTP, Message: e.Message}
	}
	r.Message = cmp.Or(e.Custom, strings.ReplaceAll(r.Message, "%s", x.call.Model))
	return &r
}

func (o *ollamaWire) problem(x *exchange, e *statusError) problem {
	return o.encodeError(o.translate(x, e))
}

func (o *ollamaWire) streamProblem(x *exchange, e *statusError) []completion.Event {
	return []completion.Event{{Data: o.translate(x, e).Body()}}
}
