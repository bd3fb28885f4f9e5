package server

import (
	"context"

	"perigee"
	"perigee/internal/server/reqbody"
)

// A MediaFetcher replaces references to files on the web in a prompt with their data, as far as
// allowed. It never changes the given prompt, and returns it if there is nothing to replace. It
// calls reserve, from one goroutine at a time, for the bytes that it keeps, and returns the error
// of reserve unchanged.
type MediaFetcher interface {
	Inline(ctx context.Context, p *perigee.Prompt, reserve func(bytes int64) error) (*perigee.Prompt, []perigee.Note, error)
}

// ready returns a request that is sent as a prompt. Its media on the web are fetched if the provider
// does not read addresses. It is for the dialects in which clients expect any URL to work; URLs of
// the Gemini dialect are passed on. Routing calls it after admit, so that a refused key cannot make
// perigee fetch.
func (c *call) ready(req *perigee.Request, readsURLs bool) (*perigee.Request, error) {
	if c.state.Fetch != nil && !readsURLs {
		prompt, err := req.Prompt()
		if err != nil {
			return nil, err
		}
		inlined, notes, err := c.state.Fetch.Inline(c.r.Context(), prompt, c.fetches)
		if err != nil {
			return nil, err
		}
		if inlined != prompt {
			req = req.WithPrompt(inlined)
			req.Note(notes...)
			if err := req.RefuseIfStrict(notes); err != nil {
				return nil, err
			}
		}
	}
	reqbody.CollectDecoded(c.body)
	return req, nil
}
