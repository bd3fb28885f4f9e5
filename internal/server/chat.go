package server

import (
	"net/http"
	"slices"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/chat"
)

// chatDialect is OpenAI's API, but for Responses and images. It also shapes the errors of perigee's own paths.
var chatDialect = dialect{
	name:        perigee.DialectOpenAIChat,
	owns:        func(string, http.Header) bool { return true },
	requestID:   "X-Request-Id",
	encodeError: func(_ *call, status int, err *perigee.Error) []byte { return openai.EncodeError(status, err) },
	endpoints: []endpoint{
		{path: "/v1/chat/completions", operation: perigee.OperationGenerate, decode: decodeChat},
		{path: "/v1/embeddings", operation: perigee.OperationEmbed, decode: decodeEmbeddings},
	},
}

// imagesDialect is the part of OpenAI's API that generates images.
var imagesDialect = dialect{
	name:        perigee.DialectOpenAIImages,
	owns:        func(path string, _ http.Header) bool { return path == imagesPath },
	requestID:   "X-Request-Id",
	encodeError: func(_ *call, status int, err *perigee.Error) []byte { return openai.EncodeError(status, err) },
	endpoints:   []endpoint{{path: imagesPath, operation: perigee.OperationGenerate, decode: decodeImages}},
}

const imagesPath = "/v1/images/generations"

func decodeChat(c *call, origin perigee.Origin) (*exchange, error) {
	req, err := chat.DecodeRequest(origin)
	if err != nil {
		return nil, err
	}
	answer := func(r *perigee.Request) chat.Answer {
		return chat.Answer{ID: "chatcmpl-" + c.id, Created: c.start.Unix(), Model: r.Model, Style: req.Style, Log: r.Log}
	}
	return &exchange{
		request: req.Request,
		stream:  func(r *perigee.Request) streamEncoder { return chat.NewStream(answer(r)) },
		collect: func(r *perigee.Request) collector { return chat.NewCollector(answer(r)) },
	}, nil
}

func decodeEmbeddings(c *call, origin perigee.Origin) (*exchange, error) {
	req, packed, err := openai.DecodeEmbeddings(origin)
	if err != nil {
		return nil, err
	}
	return &exchange{embed: req, calls: req.Requests(),
		vectors: func(v *perigee.Embeddings) []byte { return openai.EncodeEmbeddings(v, packed) }}, nil
}

func decodeImages(c *call, origin perigee.Origin) (*exchange, error) {
	req, err := openai.DecodeImages(origin)
	if err != nil {
		return nil, err
	}
	return &exchange{request: req.Request, calls: req.Count, answer: func(r *perigee.Request) error {
		req.Request = r
		return c.generateImages(req)
	}}, nil
}

// generateImages asks for one image after the other, since models that draw give one answer at a
// time. A provider with the same API gets one request for all.
func (c *call) generateImages(req *openai.ImagesRequest) error {
	images := &openai.Images{Created: c.start.Unix()}
	if req.Links {
		if c.opts.Images == nil {
			return openai.Wrong("response_format", "image URLs are not supported").WithHint("use b64_json")
		}
		images.Save = c.imageKeeper().Link
	}
	c.routed = true
	before := c.log.Fork()
	notes := before.Notes()
	for i := range req.Count {
		one := *req.Request
		if i > 0 { // the record keeps one row for each
			one.ID, one.Log = c.opts.NewID(), before.Fork()
			defer one.Log.Close()
		}
		err := c.generateImage(&one, images)
		for _, n := range one.Log.Notes()[len(before.Notes()):] {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
		if err != nil {
			c.note(notes)
			return err
		}
		if images.Complete() {
			break
		}
	}
	c.note(notes)
	if err := images.Err(); err != nil {
		return err
	}
	c.writeJSON(http.StatusOK, images.Bytes())
	return nil
}

func (c *call) generateImage(req *perigee.Request, into *openai.Images) error {
	for ev, err := range c.opts.Upstream.Stream(c.r.Context(), req) {
		if err != nil {
			return err
		}
		if ev.Kind == perigee.EventStart {
			c.describe(ev.Upstream, ev.Model)
			c.setHeader(ev.Header)
		}
		into.Add(&ev)
	}
	return nil
}

// imageKeeper returns the keeper that stores the images of an answer.
func (c *call) imageKeeper() *imageKeeper {
	return &imageKeeper{Store: c.opts.Images, Logger: c.opts.Logger, Call: c.id, Log: c.log, Base: baseURL(c.r)}
}
