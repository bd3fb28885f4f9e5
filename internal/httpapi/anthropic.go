package httpapi

import (
	"net/http"
	"slices"

	"perigee"
	"perigee/internal/dialect/anthropic"
)

// anthropicMessages answers POST /v1/messages.
func (c *call) anthropicMessages() error {
	req, answer, err := c.anthropicRequest()
	if err != nil {
		return err
	}
	release, err := c.admit(req.Model)
	if err != nil {
		return err
	}
	defer release()
	if req, err = c.inline(req); err != nil {
		return err
	}
	settle(req.Body)
	if req.Stream {
		err = c.stream(req, anthropic.NewStream(answer))
	} else {
		err = c.whole(c.r.Context(), req, anthropic.NewCollector(answer))
	}
	releaseBody(req.Body)
	return err
}

// anthropicRequest reads the request. The model stands in the body, so the body is read before anything is
// known about the model.
func (c *call) anthropicRequest() (*perigee.Request, *anthropic.Answer, error) {
	c.w.Header().Set("Request-Id", "req_"+c.id) // where the official libraries look for it
	body, err := c.readBody()
	if err != nil {
		return nil, nil, err
	}
	req, answer, err := anthropic.DecodeRequest(c.origin(body))
	if err != nil {
		return nil, nil, err
	}
	if c.opts.Images != nil {
		req.Late = &perigee.LateNotes{}
		answer.SaveImage = c.keepImages(req.Late)
	}
	// Clients of beta interfaces say so in the URL as well; what they ask for stands in the body.
	req.Notes = append(req.Notes, slices.DeleteFunc(queryNotes(c.r.URL), func(n perigee.Note) bool {
		return n.Subject == "query parameter beta"
	})...)
	return req, answer, req.Object(req.Notes)
}

// estimated is what a count that nobody has really made is marked with.
var estimated = perigee.Note{Action: perigee.NoteMapped, Subject: "token count: estimated"}

// anthropicCount answers POST /v1/messages/count_tokens. Where the upstream cannot count, it is estimated:
// agents ask often, and only to draw a gauge.
func (c *call) anthropicCount() error {
	req, _, err := c.anthropicRequest()
	if err != nil {
		return err
	}
	release, err := c.admit(req.Model)
	if err != nil {
		return err
	}
	defer release()
	if req, err = c.inline(req); err != nil {
		return err
	}
	count, err := c.count(req)
	if err != nil {
		return err
	}
	if count.Estimate {
		req.Notes = append(req.Notes, estimated)
	}
	c.note(req.Notes)
	c.describe(count.Upstream, count.Model)
	c.writeJSON(http.StatusOK, anthropic.EncodeTokenCount(count))
	return nil
}

func (c *call) count(req *perigee.Request) (*perigee.TokenCount, error) {
	if counter, ok := c.opts.Upstream.(perigee.TokenCounter); ok {
		c.asked = true
		count, err := counter.CountTokens(c.r.Context(), req)
		if err == nil || perigee.AsError(err).Class != perigee.ClassUnimplemented {
			return count, err
		}
	}
	prompt, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	return &perigee.TokenCount{Total: anthropic.EstimateTokens(prompt), Estimate: true}, nil
}
