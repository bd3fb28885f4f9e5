package httpapi

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect/gemini"
)

// geminiCall answers POST /v1beta/models/{model}:{method}.
func (c *call) geminiCall() error {
	i := strings.LastIndexByte(c.rest, ':')
	if i < 0 {
		return perigee.Errorf(perigee.ClassNotFound, "no method in the path %s", shorten(c.path)).
			WithNext("append one, as in models/gemini-3-flash:generateContent")
	}
	model, method := c.rest[:i], c.rest[i+1:]
	handle, ok := geminiMethods[method]
	switch method {
	case "countTokens":
		c.asks = perigee.OperationCount
	case "embedContent", "batchEmbedContents":
		c.asks = perigee.OperationEmbed
	}
	if !ok {
		return perigee.Errorf(perigee.ClassNotFound, "no method %q for models", shorten(method)).
			WithNext("use generateContent, streamGenerateContent, countTokens, embedContent or batchEmbedContents")
	}
	c.model = shorten(gemini.ModelID(model))
	if err := c.admit(); err != nil {
		return err
	}
	if err := c.allow(gemini.ModelID(model)); err != nil {
		return err
	}
	body, err := c.takeBody()
	if err != nil {
		return err
	}
	err = handle(c, c.origin(body), model)
	c.freeBody()
	return err
}

var geminiMethods = map[string]func(c *call, origin perigee.Origin, model string) error{
	"generateContent":       (*call).geminiGenerate,
	"streamGenerateContent": (*call).geminiStream,
	"countTokens":           (*call).geminiCount,
	"embedContent":          (*call).geminiEmbed,
	"batchEmbedContents":    (*call).geminiEmbed,
}

// origin describes where a request with this body came from.
func (c *call) origin(body []byte) perigee.Origin {
	o := perigee.Origin{ID: c.id, Dialect: c.dialect, Body: body, Client: clientOf(c.r), Strict: c.state.Strict, Free: c.freeBody, Memory: &c.lease}
	if c.key != nil {
		o.Client.Key = c.key.Name
		o.MayUse = c.key.mayAsk
	}
	return o
}

// geminiRequest decodes a body and accounts for the parameters of the URL.
func (c *call) geminiRequest(origin perigee.Origin, model string, stream bool) (*perigee.Request, error) {
	req, err := gemini.DecodeRequest(origin, model, stream)
	if err != nil {
		return nil, err
	}
	req.Notes = append(req.Notes, queryNotes(c.r.URL)...)
	return req, req.Object(req.Notes)
}

// queryNotes names the parameters of a URL that nobody reads.
func queryNotes(u *url.URL) []perigee.Note {
	if u.RawQuery == "" || u.RawQuery == "alt=sse" {
		return nil
	}
	var notes []perigee.Note
	for name := range u.Query() {
		if !slices.Contains([]string{"alt", "$alt", "key", "prettyPrint", "$prettyPrint"}, name) {
			notes = append(notes, perigee.Note{Action: "dropped", Subject: "query parameter " + shorten(name)})
		}
	}
	slices.SortFunc(notes, func(a, b perigee.Note) int { return strings.Compare(a.Subject, b.Subject) })
	return notes
}

func (c *call) geminiGenerate(origin perigee.Origin, model string) error {
	req, err := c.geminiRequest(origin, model, false)
	if err != nil {
		return err
	}
	return c.whole(c.r.Context(), req, &gemini.Collector{})
}

func (c *call) geminiStream(origin perigee.Origin, model string) error {
	req, err := c.geminiRequest(origin, model, true)
	if err != nil {
		return err
	}
	return c.stream(req, &gemini.Stream{SSE: !c.array})
}

// streamsArray says whether a path answers with a stream that is one JSON array: the one that streams, unless the client asks
// for events. Errors come inside an array there, too, whoever finds them.
func streamsArray(path string, u *url.URL) bool {
	if !strings.HasPrefix(path, "/v1beta/") || !strings.HasSuffix(path, ":streamGenerateContent") {
		return false
	}
	query := u.Query()
	return query.Get("alt") != "sse" && query.Get("$alt") != "sse"
}

func (c *call) geminiCount(origin perigee.Origin, model string) error {
	counter, ok := c.opts.Upstream.(perigee.TokenCounter)
	if !ok {
		return perigee.Errorf(perigee.ClassUnimplemented, "tokens cannot be counted here")
	}
	req, err := c.geminiRequest(origin, model, false)
	if err != nil {
		return err
	}
	c.note(req.Notes)
	c.asked = true
	count, err := counter.CountTokens(c.r.Context(), req)
	if err != nil {
		return err
	}
	c.describe(count.Upstream, count.Model)
	c.writeJSON(http.StatusOK, gemini.EncodeTokenCount(count))
	return nil
}

func (c *call) geminiEmbed(origin perigee.Origin, model string) error {
	embedder, ok := c.opts.Upstream.(perigee.Embedder)
	if !ok {
		return perigee.Errorf(perigee.ClassUnimplemented, "nothing can be embedded here")
	}
	req, err := gemini.DecodeEmbed(origin, model, strings.HasSuffix(c.rest, ":batchEmbedContents"))
	if err != nil {
		return err
	}
	req.Notes = append(req.Notes, queryNotes(c.r.URL)...)
	if err := req.Object(req.Notes); err != nil {
		return err
	}
	c.note(req.Notes)
	c.asked = true
	embeddings, err := embedder.Embed(c.r.Context(), req)
	if err != nil {
		return err
	}
	c.describe(embeddings.Upstream, embeddings.Model)
	c.writeJSON(http.StatusOK, gemini.EncodeEmbeddings(embeddings, req.Batch))
	return nil
}

// The provider's page sizes.
const (
	defaultPage = 50
	maxPage     = 1000
)

// geminiModels answers GET /v1beta/models, a page at a time.
func (c *call) geminiModels() error {
	models, err := c.models()
	if err != nil {
		return err
	}
	query := c.r.URL.Query()
	size := defaultPage
	if v := query.Get("pageSize"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return perigee.Errorf(perigee.ClassInvalid, "pageSize %q is not a number of models", shorten(v))
		}
		if n > 0 {
			size = min(n, maxPage)
		}
	}
	from := 0
	if token := query.Get("pageToken"); token != "" {
		// A token names the last model that was given, so that a list that changes meanwhile loses nothing.
		last, err := base64.RawURLEncoding.DecodeString(token)
		i := slices.IndexFunc(models, func(m perigee.Model) bool { return m.ID == string(last) })
		if err != nil || i < 0 {
			return perigee.Errorf(perigee.ClassInvalid, "this pageToken is not one of ours, or its model is gone").
				WithNext("start again without it")
		}
		from = i + 1
	}
	page, next := models[from:], ""
	if len(page) > size {
		page = page[:size]
		next = base64.RawURLEncoding.EncodeToString([]byte(page[size-1].ID))
	}
	c.writeJSON(http.StatusOK, gemini.EncodeModels(page, next))
	return nil
}

// geminiModel answers GET /v1beta/models/{model}.
func (c *call) geminiModel() error {
	model, err := c.modelNamed(gemini.ModelID(c.rest), "/v1beta/models")
	if err != nil {
		return err
	}
	c.describe(model.Upstream, model.ID)
	c.writeJSON(http.StatusOK, gemini.EncodeModel(model))
	return nil
}
