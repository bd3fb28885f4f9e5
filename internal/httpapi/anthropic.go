package httpapi

import (
	"net/http"
	"slices"

	"perigee"
	"perigee/internal/dialect/anthropic"
)

// anthropicMessages answers POST /v1/messages.
func (c *call) anthropicMessages() error {
	body, err := c.receive()
	if err != nil {
		return err
	}
	req, answer, err := anthropic.DecodeRequest(c.origin(body))
	if err != nil {
		return err
	}
	req.Late = &perigee.LateNotes{}
	if c.opts.Images != nil {
		answer.SaveImage = c.keepImages(req.Late)
	}
	if err := c.anthropicNotes(req); err != nil {
		return err
	}
	if err := c.allow(req.Model); err != nil {
		return err
	}
	if req, err = c.inline(req); err != nil {
		return err
	}
	decodedBody(body)
	if req.Stream {
		err = c.stream(req, anthropic.NewStream(answer))
	} else {
		err = c.whole(c.r.Context(), req, anthropic.NewCollector(answer))
	}
	c.freeBody()
	return err
}

// anthropicNotes accounts for the parameters of the URL, and objects to what would be lost where the owner is strict. Clients of
// beta interfaces say so in the URL as well; what they ask for stands in the body.
func (c *call) anthropicNotes(req *perigee.Request) error {
	req.Notes = append(req.Notes, slices.DeleteFunc(queryNotes(c.r.URL), func(n perigee.Note) bool {
		return n.Subject == "query parameter beta"
	})...)
	return req.Object(req.Notes)
}

// estimated is what a count that nobody has really made is marked with.
var estimated = perigee.Note{Action: perigee.NoteMapped, Subject: "token count: estimated"}

// anthropicCount answers POST /v1/messages/count_tokens. Where the upstream cannot count, it is estimated:
// agents ask often, and only to draw a gauge.
func (c *call) anthropicCount() error {
	body, err := c.receive()
	if err != nil {
		return err
	}
	req, err := anthropic.DecodeCount(c.origin(body))
	if err != nil {
		return err
	}
	if err := c.anthropicNotes(req); err != nil {
		return err
	}
	if err := c.allow(req.Model); err != nil {
		return err
	}
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
	return &perigee.TokenCount{Total: prompt.EstimateTokens(), Estimate: true}, nil
}
