package httpapi

import (
	"net/http"
	"slices"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/chat"
)

// chatCompletions answers POST /v1/chat/completions.
func (c *call) chatCompletions() error {
	c.dialect = perigee.DialectOpenAIChat
	body, err := c.receive()
	if err != nil {
		return err
	}
	req, err := chat.DecodeRequest(c.origin(body))
	if err != nil {
		return err
	}
	req.Late = &perigee.LateNotes{}
	if err := c.letIn(&req.Origin, req.Model, 1); err != nil {
		return err
	}
	if req.Request, err = c.inline(req.Request); err != nil {
		return err
	}
	decodedBody(body)
	answer := chat.Answer{ID: "chatcmpl-" + c.id, Created: c.start.Unix(), Model: req.Model, Style: req.Style, Late: req.Late}
	if req.Stream {
		err = c.stream(req.Request, chat.NewStream(answer))
	} else {
		err = c.whole(c.r.Context(), req.Request, chat.NewCollector(answer))
	}
	c.freeBody()
	return err
}

// embeddings answers POST /v1/embeddings.
func (c *call) embeddings() error {
	c.dialect = perigee.DialectOpenAIChat
	embedder, ok := c.opts.Upstream.(perigee.Embedder)
	if !ok {
		return perigee.Errorf(perigee.ClassUnimplemented, "nothing can be embedded here")
	}
	body, err := c.receive()
	if err != nil {
		return err
	}
	req, packed, err := openai.DecodeEmbeddings(c.origin(body))
	if err != nil {
		return err
	}
	if err := c.letIn(&req.Origin, req.Model, req.Requests()); err != nil {
		return err
	}
	c.note(req.Notes)
	c.asked = true
	vectors, err := embedder.Embed(c.r.Context(), req)
	if err != nil {
		return err
	}
	if vectors.Estimate {
		c.note(append(slices.Clip(req.Notes), perigee.EstimatedUsage))
	}
	c.describe(vectors.Upstream, vectors.Model)
	c.writeJSON(http.StatusOK, openai.EncodeEmbeddings(vectors, packed))
	return nil
}

// imageGenerations answers POST /v1/images/generations. Each picture is a call of its own to the model, one after
// the other, since models that draw give one answer at a time.
func (c *call) imageGenerations() error {
	c.dialect = perigee.DialectOpenAIChat
	body, err := c.receive()
	if err != nil {
		return err
	}
	req, err := openai.DecodeImages(c.origin(body))
	if err != nil {
		return err
	}
	if err := c.letIn(&req.Origin, req.Model, req.Count); err != nil {
		return err
	}
	images := &openai.Images{Created: c.start.Unix()}
	if req.Links {
		if c.opts.Images == nil {
			return openai.Wrong("response_format", "no pictures are kept here").WithNext("ask for b64_json")
		}
		images.Save = c.imageLink
	}
	notes := req.Notes
	c.asked = true
	for i := range req.Count {
		one := *req.Request
		if i > 0 {
			one.ID = c.opts.NewID() // the record keeps one row for each
		}
		for ev, err := range c.opts.Upstream.Stream(c.r.Context(), &one) {
			if err != nil {
				c.note(notes)
				return err
			}
			switch ev.Kind {
			case perigee.EventStart:
				c.describe(ev.Upstream, ev.Model)
			case perigee.EventNote:
				notes = append(notes, *ev.Note)
			}
			images.Add(&ev)
		}
	}
	c.note(notes)
	if err := images.Err(); err != nil {
		return err
	}
	c.writeJSON(http.StatusOK, images.Bytes())
	return nil
}
