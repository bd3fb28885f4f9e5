package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	words "perigee"
	"perigee/bench/internal/measure"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/schema"
	wire "perigee/internal/dialect/gemini"
)

// A preparation is what it costs to make a conversation one that the Antigravity gateway takes:
// thinking, names, pairs and the schemas of 40 tools.
type preparation struct {
	model string
	size  int // of the conversation, without the tools
	took  time.Duration
	again time.Duration // where the schemas are known from an earlier request
}

const (
	preparedTools = 40
	preparedSize  = 200 << 10 // for which something is promised
)

// measurePreparation prepares conversations in this process, again and again, and takes the median.
func (b *bench) measurePreparation(ctx context.Context) error {
	for _, model := range []string{"claude-opus-4-6-thinking", "gemini-3-flash"} {
		for _, size := range []int{10 << 10, preparedSize, 1 << 20, 10 << 20} {
			prompt, err := agentPrompt(model, size)
			if err != nil {
				return err
			}
			took, err := timePreparing(ctx, prompt, model, size, adapt.AntigravityOptions{})
			if err != nil {
				return err
			}
			again, err := timePreparing(ctx, prompt, model, size, adapt.AntigravityOptions{Schemas: schema.NewCache(schema.CacheBytes)})
			if err != nil {
				return err
			}
			b.report.preparations = append(b.report.preparations, preparation{model, size, took, again})
		}
	}
	return nil
}

// timePreparing prepares a prompt again and again, and returns the median of the times.
func timePreparing(ctx context.Context, prompt *words.Prompt, model string, size int, opts adapt.AntigravityOptions) (time.Duration, error) {
	times := make([]time.Duration, max(5, min(200, (50<<20)/size)))
	for i := range times {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		began := time.Now()
		prepared := adapt.ForAntigravity(prompt, models.Of(model), opts)
		times[i] = time.Since(began)
		if len(prepared.Prompt.Tools) != preparedTools {
			return 0, fmt.Errorf("%s: %d tools of %d are left", model, len(prepared.Prompt.Tools), preparedTools)
		}
	}
	return measure.Median(times), nil
}

// agentPrompt is a coding agent's conversation of about the given size, with its tools.
func agentPrompt(model string, size int) (*words.Prompt, error) {
	req, err := wire.DecodeRequest(words.Origin{Dialect: words.DialectGemini, Body: agentBody(gemini, model, size)}, model, true)
	if err != nil {
		return nil, err
	}
	shared, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	prompt := *shared
	prompt.Tools = nil
	for i := range preparedTools {
		t := agentTool(i)
		prompt.Tools = append(prompt.Tools, words.Tool{Function: &words.Function{
			Name: t.name, Description: t.description, Parameters: json.RawMessage(t.parameters), JSONSchema: true,
		}})
	}
	budget := int64(8000)
	prompt.Generation.Thinking = &words.Thinking{Include: new(true), Budget: &budget}
	return &prompt, nil
}
