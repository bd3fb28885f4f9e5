package antigravity

import (
	"context"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
)

// CountTokens returns the gateway's count. The method takes neither a model nor settings and
// counts as one of the gateway's own models would; for other models the count is an estimate.
func (u *Upstream) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	spec := models.Of(req.Model)
	prepared := adapt.ForAntigravity(prompt, spec, adapt.AntigravityOptions{KeepThinking: u.opts.KeepThinking, Schemas: u.schemas})
	if err := u.checkPrompt(req, prompt, prepared.Prompt); err != nil {
		return nil, err
	}
	counted := *prepared.Prompt
	counted.Generation, counted.ToolConfig, counted.Extra = perigee.Generation{}, nil, nil
	request := append([]byte(`{"request":`), dialect.EncodeRequest(&counted)...)
	raw, err := u.control(ctx, req.Log, "countTokens", func(pool.Lease) []byte { return append(request, '}') })
	if err != nil {
		return nil, err
	}
	var count *perigee.TokenCount
	inner := unwrap(raw)
	if err = rawjson.Check(inner); err == nil {
		count, err = dialect.DecodeTokenCount(inner)
	}
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "upstream %s sent a count that cannot be read: %w", u.opts.Name, err)
	}
	count.Upstream, count.Model = u.opts.Name, req.Model
	count.Estimate = spec.Family == models.Claude || spec.Family == models.GPTOSS
	return count, nil
}
