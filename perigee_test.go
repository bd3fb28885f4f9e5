package perigee_test

import (
	"context"
	"iter"
	"testing"

	"perigee"
)

// plain is an upstream that can answer, and nothing else.
type plain struct{}

func (plain) Stream(context.Context, *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(func(perigee.Event, error) bool) {}
}

// able can do everything.
type able struct{ plain }

func (able) CountTokens(context.Context, *perigee.Request) (*perigee.TokenCount, error) {
	return &perigee.TokenCount{Total: 7}, nil
}
func (able) Embed(context.Context, *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	return &perigee.Embeddings{Model: "e"}, nil
}
func (able) Models(context.Context) ([]perigee.Model, error) {
	return []perigee.Model{{ID: "m"}}, nil
}

func TestAroundCanDoWhatTheUpstreamInsideCan(t *testing.T) {
	a := perigee.Passthrough{Upstream: able{}}
	count, err := a.CountTokens(t.Context(), nil)
	embedded, err2 := a.Embed(t.Context(), nil)
	models, err3 := a.Models(t.Context())
	if err != nil || err2 != nil || err3 != nil || count.Total != 7 || embedded.Model != "e" || models[0].ID != "m" {
		t.Errorf("got %v, %v, %v and %v, %v, %v", count, embedded, models, err, err2, err3)
	}
	a = perigee.Passthrough{Upstream: plain{}}
	_, err = a.CountTokens(t.Context(), nil)
	_, err2 = a.Embed(t.Context(), nil)
	models, err3 = a.Models(t.Context())
	if perigee.AsError(err).Class != perigee.ClassUnimplemented || perigee.AsError(err2).Class != perigee.ClassUnimplemented ||
		models != nil || err3 != nil {
		t.Errorf("got %v, %v, %v, %v", err, err2, models, err3)
	}
}
