package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/account/adc"
	"perigee/internal/adapt/models"
	messages "perigee/internal/dialect/anthropic"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/rawjson"
	"perigee/internal/store/config"
)

const (
	// The versions of the API. Only v1beta1 has all that Gemini can do; Claude is in v1.
	vertexGemini = "/v1beta1"
	vertexClaude = "/v1"

	// vertexVersion is the version of the Messages API on Vertex AI.
	vertexVersion = "vertex-2023-10-16"

	vertexService = "aiplatform.googleapis.com"
)

// newVertex returns the provider of Vertex AI. Models of Google have Gemini's API, and Claude has
// the Messages API.
func newVertex(u config.Upstream) *Provider {
	location := cmp.Or(u.Location, os.Getenv("GOOGLE_CLOUD_LOCATION"), "global")
	p := &Provider{
		authorize:     Gemini.authorize,
		clientHeaders: []string{"Anthropic-"},
		raw:           vertexRaw,
		models:        &listing{target: vertexModels, decode: decodeVertexModels(len(u.Keys) > 0)},
		embed:         vertexEmbedding(len(u.Keys) > 0),
		decodeError:   decodeVertexError,
		owns:          isMessagesError,
		checkAnswer:   dialect.CheckAnswer,
		reasoning: func(req *perigee.Request) perigee.Reasoning {
			reasoning := models.Of(req.Model).Family.Reasoning()
			if reasoning.Form == perigee.ReasoningInParts && reasoning.Provider != "" {
				reasoning.Provider = "vertex gemini" // it is unknown whether the Gemini API accepts it
			}
			return reasoning
		},
	}
	p.probe = func(ctx context.Context, u *Upstream, list []perigee.Model) error {
		return probeVertex(ctx, u, list, location)
	}
	p.lacks = func(model string) error {
		switch publisher, id := vertexModel(model); {
		case publisher == "" || id == "":
			return perigee.Errorf(perigee.ClassNotFound, "Vertex AI has no model %q", perigee.Clip(model, maxNamed)).
				WithHint("the name of a model is NAME or PUBLISHER/NAME")
		case publisher == "anthropic" && len(u.Keys) > 0:
			return perigee.Errorf(perigee.ClassNotFound, "Vertex AI has no Claude models in express mode").
				WithHint("set project and credentials of the upstream in place of keys")
		}
		return nil
	}
	p.hint = func(e *perigee.Error, _ string) string { return vertexHint(e, location) }
	if len(u.Keys) == 0 {
		p.access = &vertexAccess{source: adc.New(u.Credentials), name: u.Name, project: cmp.Or(u.Project, os.Getenv("GOOGLE_CLOUD_PROJECT")), location: location}
	}
	if u.URL == "" || u.URL == config.KindOf(config.KindVertex).URL {
		p.address = vertexAddress(location)
		if len(u.Keys) > 0 {
			p.address = vertexAddress("global")
		}
	}
	claude, keys := newVertexClaude(u), len(u.Keys) > 0
	p.wire = func(req *perigee.Request) *Wire {
		if publisher, _ := vertexModel(req.Model); publisher == "anthropic" && !keys {
			return claude
		}
		return vertexGeminiWire
	}
	return p
}

// vertexAddress returns the base URL of a location.
func vertexAddress(location string) string {
	switch location {
	case "global":
		return "https://" + vertexService
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com"
	}
	return "https://" + location + "-" + vertexService
}

// dated matches the date at the end of a name of Anthropic's.
var dated = lazyregexp.New(`-(20\d{6})$`)

// vertexModel returns the publisher of a model, which may be in its name, and the name as Vertex AI has
// it.
func vertexModel(name string) (publisher, id string) {
	publisher, id, found := strings.Cut(name, "/")
	if !found {
		publisher, id = "google", name
		if strings.HasPrefix(name, "claude-") {
			publisher = "anthropic"
		}
	}
	if publisher == "anthropic" {
		id = dated().ReplaceAllString(id, "@$1")
	}
	return publisher, id
}

// vertexTarget returns the URL of a method of a model, without the project.
func vertexTarget(base, version, model, method string) string {
	publisher, id := vertexModel(model)
	return base + version + "/publishers/" + url.PathEscape(publisher) + "/models/" + url.PathEscape(id) + ":" + method
}

// A vertexAccess authorizes requests with Google credentials.
type vertexAccess struct {
	source            *adc.Source
	name              string // of the upstream
	project, location string
}

func (a *vertexAccess) use(transport http.RoundTripper, userAgent string) {
	a.source.Use(transport, userAgent)
}

func (a *vertexAccess) unusable() string { return a.source.Unusable() }

func (a *vertexAccess) secrets() []perigee.Secret { return a.source.Secrets() }

func (a *vertexAccess) refused(req *http.Request) {
	_, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	a.source.Refused(perigee.NewSecret(token))
}

// authorize adds a token, and the project to the path of a method. The list of models belongs to no
// project, but no call can be made without one. Requests of a person need one that they are charged to.
func (a *vertexAccess) authorize(req *http.Request) error {
	token, err := a.source.Token(req.Context())
	if err != nil {
		return a.explain(err)
	}
	project := cmp.Or(a.project, token.Project)
	if project == "" {
		return a.explain(&perigee.Error{Class: perigee.ClassForbidden, Message: "the Google credentials name no project",
			Hint: "set project of the upstream, or GOOGLE_CLOUD_PROJECT", Setting: "project"})
	}
	if why := config.CheckProject(project); why != "" {
		return a.explain(&perigee.Error{Class: perigee.ClassForbidden, Message: "the project cannot be used: " + why,
			Hint: "set project of the upstream, or correct it in the Google credentials", Setting: "project"})
	}
	if req.Method == http.MethodPost {
		place := "/projects/" + project + "/locations/" + a.location + "/publishers/"
		req.URL.Path = strings.Replace(req.URL.Path, "/publishers/", place, 1)
		req.URL.RawPath = strings.Replace(req.URL.RawPath, "/publishers/", place, 1)
	}
	req.Header.Set("Authorization", "Bearer "+token.Access.Reveal())
	quota := token.Quota
	if token.User {
		quota = cmp.Or(quota, project)
	}
	if quota != "" && req.Header.Get("X-Goog-User-Project") == "" {
		req.Header.Set("X-Goog-User-Project", quota)
	}
	return nil
}

// explain adds the name of the upstream to an error.
func (a *vertexAccess) explain(err error) error {
	e, ok := err.(*perigee.Error)
	if !ok {
		return err // the call has ended
	}
	c := *e
	c.Message = "upstream " + a.name + ": " + c.Message
	if c.Public != "" {
		c.Public = "upstream " + a.name + ": " + c.Public
	}
	return &c
}

// vertexRaw returns the URL that a recorded request was sent to.
func vertexRaw(base string, r *perigee.RawRequest) string {
	publisher, _ := vertexModel(r.Model)
	switch {
	case r.Operation == perigee.OperationEmbed:
		return vertexTarget(base, vertexGemini, r.Model, embedMethod(r.Model))
	case publisher != "anthropic":
		return vertexTarget(base, vertexGemini, r.Model, rawGeminiMethod(r))
	case r.Operation == perigee.OperationCount:
		return base + vertexCountPath
	}
	return vertexTarget(base, vertexClaude, r.Model, predictMethod(r.Stream))
}

var vertexGeminiWire = &Wire{
	dialect:   perigee.DialectGemini,
	snakeCase: true,
	stops:     geminiWire.stops,
	target: func(base, model string, stream bool) string {
		return vertexTarget(base, vertexGemini, model, generateMethod(stream))
	},
	message: func(req *perigee.Request) (message, error) {
		_, id := vertexModel(req.Model)
		m, err := geminiWire.message(req.WithModel(id))
		if err != nil || !isVerbatimGemini(req) {
			return m, err
		}
		return forVertex(req, m)
	},
	decoder: geminiWire.decoder,
	repair: func(req *perigee.Request, sent *message, refused error) (message, bool) {
		m, ok := repairGemini(req, sent, refused)
		if ok && isVerbatimGemini(req) {
			repaired, err := forVertex(req, m)
			return repaired, err == nil
		}
		return m, ok
	},
	count: &counting{
		target: func(base, model string) string { return vertexTarget(base, vertexGemini, model, "countTokens") },
		message: func(req *perigee.Request) (message, error) {
			_, id := vertexModel(req.Model)
			m, err := geminiMessage(req.WithModel(id), func(prompt *perigee.Prompt) message {
				return message{body: [][]byte{dialect.EncodeRequest(prompt)}}
			})
			if err != nil {
				return m, err
			}
			m.body = [][]byte{dialect.VertexCount(slices.Concat(m.body...))}
			if isVerbatimGemini(req) {
				return forVertex(req, m)
			}
			return m, nil
		},
		decode: dialect.DecodeTokenCount,
	},
}

// forVertex returns a message of a client of the Gemini API as Vertex AI takes it.
func forVertex(req *perigee.Request, m message) (message, error) {
	body := slices.Concat(m.body...)
	edits, notes := dialect.ForVertex(body)
	if err := req.RefuseIfStrict(notes); err != nil {
		return m, err
	}
	m.body, m.notes = rawjson.Pieces(body, edits...), slices.Concat(m.notes, notes)
	return m, nil
}

// vertexEmbedding returns the methods for embeddings. Express mode has none.
func vertexEmbedding(express bool) *embedding {
	return &embedding{
		target: func(base string, req *perigee.EmbedRequest) string {
			return vertexTarget(base, vertexGemini, req.Model, embedMethod(req.Model))
		},
		lacks: func(model string) error {
			switch publisher, _ := vertexModel(model); {
			case express:
				return perigee.Errorf(perigee.ClassUnimplemented, "Vertex AI has no embeddings in express mode").
					WithHint("set project and credentials of the upstream in place of keys")
			case publisher == "anthropic":
				return perigee.Errorf(perigee.ClassUnimplemented, "Claude models make no embeddings").
					WithHint("choose an embedding model, such as gemini-embedding-001")
			}
			return nil
		},
		// gemini-embedding-001 takes one text, and so does embedContent. Older models take 250 texts
		// with 20,000 tokens, which are estimated here.
		batch: func(model string) (inputs int, tokens int64) {
			if _, id := vertexModel(model); embedMethod(model) == "predict" && !strings.HasPrefix(id, "gemini-") {
				return perigee.MaxEmbedBatch, 10_000
			}
			return 1, 0
		},
		encode: func(model string, inputs []perigee.EmbedInput) ([]byte, []perigee.Note, error) {
			if embedMethod(model) == "predict" {
				return dialect.EncodePredict(inputs)
			}
			body, notes := dialect.EncodeVertexEmbed(&inputs[0])
			return body, notes, nil
		},
		decode: dialect.DecodePredictions,
	}
}

// embedMethod returns the method for embeddings of a model: models of Gemini after the first one, and
// open ones that Google serves, have embedContent.
func embedMethod(model string) string {
	_, id := vertexModel(model)
	if strings.Contains(id, "gemini") && id != "gemini-embedding-001" || strings.Contains(id, "maas") {
		return "embedContent"
	}
	return "predict"
}

// vertexCountPath is the method that counts tokens for all Claude models.
const vertexCountPath = vertexClaude + "/publishers/anthropic/models/count-tokens:rawPredict"

func predictMethod(stream bool) string {
	if stream {
		return "streamRawPredict"
	}
	return "rawPredict"
}

// newVertexClaude returns the method of Claude models. The model is in the URL; a count has it in the
// body.
func newVertexClaude(u config.Upstream) *Wire {
	a := newMessages(u)
	a.version = vertexVersion
	w := a.wire()
	w.target = func(base, model string, stream bool) string {
		return vertexTarget(base, vertexClaude, model, predictMethod(stream))
	}
	w.count.target = func(base, _ string) string { return base + vertexCountPath }
	count := w.count.message
	w.count.message = func(req *perigee.Request) (message, error) {
		_, id := vertexModel(req.Model)
		m, err := count(req.WithModel(id))
		m.edits = slices.DeleteFunc(m.edits, func(c *change) bool { return c.name == "model" })
		m.edits = append(m.edits, &change{name: "model", value: rawjson.AppendString(nil, id), quiet: true})
		return m, err
	}
	w.message, w.count.message = withData(w.message), withData(w.count.message)
	filter := &betaFilter{}
	filter.use(&w.message, &w.repair, false)
	filter.use(&w.count.message, &w.count.repair, true)
	return w
}

// vertexModels returns the URL of a page of the list of models of Google.
func vertexModels(base, page string) string {
	target := base + vertexGemini + "/publishers/google/models?pageSize=200"
	if page != "" {
		target += "&pageToken=" + url.QueryEscape(page)
	}
	return target
}

// decodeVertexModels returns a function that reads a page of the list, without models that perigee
// cannot use. Express mode has no embeddings. Otherwise, the known Claude models follow the last page:
// Vertex AI does not list them.
func decodeVertexModels(express bool) func([]byte) ([]perigee.Model, string, error) {
	return func(answer []byte) (list []perigee.Model, next string, err error) {
		list, next, err = dialect.DecodePublisherModels(answer)
		list = slices.DeleteFunc(list, func(m perigee.Model) bool {
			embeds := models.Of(m.ID).Family == models.Embedding
			return embeds && express || !embeds && !strings.HasPrefix(m.ID, "gemini-")
		})
		for i := range list {
			addSpec(&list[i], models.Of(list[i].ID))
		}
		if err == nil && next == "" && !express {
			for _, spec := range models.OnVertex {
				m := perigee.Model{ID: spec.ID}
				addSpec(&m, spec)
				list = append(list, m)
			}
		}
		return list, next, err
	}
}

// addSpec adds what is known of a model.
func addSpec(m *perigee.Model, spec models.Spec) {
	m.Context, m.Output, m.Thinking = spec.Context, spec.Output, spec.Thinking.Max > 0
	m.Methods = []string{"generateContent", "countTokens"}
	if spec.Family == models.Embedding {
		m.Methods = []string{"embedContent"}
	}
}

// isMessagesError reports whether the body of an error is of the Messages API. Google refuses requests
// before they reach it.
func isMessagesError(body []byte) bool {
	if rawjson.Check(body) != nil {
		return false
	}
	start, end, found := rawjson.Find(body, "type")
	return found && string(body[start:end]) == `"error"`
}

// vertexSteps are the next steps after errors of Vertex AI, by a part of the message or of its details,
// in lower case. PROJECT in a fix is the project of the error.
var vertexSteps = []struct{ part, hint, fix, setting string }{
	{"quota project", "name the project that calls are charged to: " + quotaProject + "PROJECT", quotaProject + "…", ""},
	{"user_project_denied", "choose a project that you may use: " + quotaProject + "PROJECT", quotaProject + "…", ""},
	{"service_disabled", "enable the API: " + enableAPI, enableAPI + " --project=PROJECT", ""},
	{"has not been used in project", "enable the API: " + enableAPI, enableAPI + " --project=PROJECT", ""},
	{"billing", "enable billing for the project in the Google Cloud console", "gcloud billing projects link PROJECT --billing-account=…", ""},
	{"permission", "check project of the upstream, and grant the role Vertex AI User (roles/aiplatform.user) in it", "", "project"},
	{"not found or your project does not have access", "check the name; the model may have to be enabled in Model Garden, or be in another location, such as global", "", ""},
	{"not servable in region", "set location of the upstream to one that has the model, such as global", "", "location"},
	{"unsupported region", "set location of the upstream to one of these, or to global", "", "location"},
}

const (
	quotaProject = "gcloud auth application-default set-quota-project "
	enableAPI    = "gcloud services enable " + vertexService
)

// consumer matches the project that the details of an error are about.
var consumer = lazyregexp.New(`"(?:consumer|resource)":\s*"projects/([^/"]+)`)

// decodeVertexError reads an error of Google or of the Messages API.
func decodeVertexError(status int, body []byte) *perigee.Error {
	if isMessagesError(body) {
		return messages.DecodeError(status, body)
	}
	e := dialect.DecodeError(status, body)
	text := strings.ToLower(e.Message)
	switch {
	case strings.Contains(text, "quota exceeded for"):
		e.Class = perigee.ClassExhausted
	case e.Status == http.StatusTooManyRequests && e.Retry == 0 && strings.Contains(text, "resource") && strings.Contains(text, "exhausted"):
		e.Class = perigee.ClassCapacity // of the provider, which all its customers share
	case strings.Contains(text, "not servable in region"), isNoLocation(text):
		e.Class = perigee.ClassNotFound
	}
	project := "…"
	for _, detail := range e.Details {
		text += strings.ToLower(string(detail))
		if found := consumer().FindSubmatch(detail); found != nil {
			project = string(found[1])
		}
	}
	if e.Class == perigee.ClassForbidden || e.Class == perigee.ClassNotFound || e.Class == perigee.ClassInvalid {
		for _, step := range vertexSteps {
			if strings.Contains(text, step.part) {
				e.Hint, e.Fix, e.Setting = step.hint, strings.Replace(step.fix, "PROJECT", project, 1), step.setting
				break
			}
		}
	}
	return e
}

// isNoLocation reports whether the message of an error is that there is no such location.
func isNoLocation(message string) bool {
	return strings.Contains(strings.ToLower(message), "unsupported region")
}

// vertexHint returns the next step if the host of a region does not exist.
func vertexHint(e *perigee.Error, location string) string {
	if unknown, ok := errors.AsType[*net.DNSError](e.Cause); !ok || !unknown.IsNotFound || unknown.Name != location+"-"+vertexService {
		return ""
	}
	e.Setting = "location"
	return "set location of the upstream to one that Vertex AI has, such as global, or check the network"
}

// maxProbed is how many models are looked for in a location.
const maxProbed = 6

// probeVertex counts the tokens of a short text, which is free, in project and location: the list of
// models belongs to neither. It fails if none of the models that it tries is there.
func probeVertex(ctx context.Context, u *Upstream, list []perigee.Model, location string) error {
	list = slices.DeleteFunc(slices.Clone(list), func(m perigee.Model) bool { return !slices.Contains(m.Methods, "countTokens") })
	slices.SortStableFunc(list, func(a, b perigee.Model) int { return cmp.Compare(likelihood(a), likelihood(b)) })
	prompt := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("hello")}}}}}
	var missing error
	for _, m := range list[:min(len(list), maxProbed)] {
		_, err := u.CountTokens(ctx, perigee.NewRequest(perigee.Origin{}, m.ID, false, func() (*perigee.Prompt, error) { return prompt, nil }))
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassNotFound || isNoLocation(e.Message) {
			return err
		}
		missing = err
	}
	if missing == nil {
		return nil
	}
	return &perigee.Error{Class: perigee.ClassNotFound, Upstream: u.opts.Name, Setting: "location", Cause: missing,
		Message: fmt.Sprintf("location %s has none of the models that were tried, such as %s, or the project may use none of them", location, list[0].ID),
		Hint:    "set location of the upstream to one that has your models, such as global"}
}

// likelihood orders models: those that are in most locations come first.
func likelihood(m perigee.Model) int {
	spec, known := models.Lookup(m.ID)
	switch {
	case spec.Family == models.Gemini2 && known:
		return 0
	case known:
		return 1
	}
	return 2
}
