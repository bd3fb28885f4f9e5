package server

import (
	"context"

	"perigee"
)

// A MediaFetcher replaces references to files on the web in a prompt with their data, as far as
// allowed. It never changes the given prompt, and returns it if there is nothing to replace. It
// calls reserve, from one goroutine at a time, for the bytes that it keeps, and returns the error
// of reserve unchanged.
type MediaFetcher interface {
	Inline(ctx context.Context, p *perigee.Prompt, reserve func(bytes int64) error) (*perigee.Prompt, []perigee.Note, error)
}

// inline makes the media that a request refers to be fetched if its upstream needs them. It is for the dialects in which clients expect
// any URL to work; URLs of the Gemini dialect are passed on. It runs after admit, so that a refused
// key cannot make perigee fetch.
func (c *call) inline(req *perigee.Request) {
	if c.state.Fetch == nil {
		return
	}
	req.Fetch = c.fetch
}

// fetch returns a request with the media that it refers to.
func (c *call) fetch(req *perigee.Request) (*perigee.Request, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	inlined, notes, err := c.state.Fetch.Inline(c.r.Context(), prompt, c.fetches)
	if err != nil {
		return nil, err
	}
	if inlined == prompt {
		return req, nil
	}
	req = req.WithPrompt(inlined)
	req.Note(notes...)
	return req, req.RefuseIfStrict(notes)
}
