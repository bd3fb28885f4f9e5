package server

import (
	"context"

	"perigee"
)

// A MediaFetcher puts data in place of the files on the web that a prompt points at, as far as it
// may. It returns the same prompt when there was nothing to do, and never changes the one it was
// given. It calls reserve, from one goroutine at a time, for the bytes that it keeps, and returns
// the error of reserve as it is.
type MediaFetcher interface {
	Inline(ctx context.Context, p *perigee.Prompt, reserve func(bytes int64) error) (*perigee.Prompt, []perigee.Note, error)
}

// inline fetches what a request points at. It is for the dialects whose clients expect any URL to
// work; clients of the Gemini dialect mean what they write. It comes after admit, so that a key
// that may not ask cannot make perigee fetch.
func (c *call) inline(req *perigee.Request) (*perigee.Request, error) {
	if c.state.Fetch == nil {
		return req, nil
	}
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
