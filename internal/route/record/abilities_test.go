package record

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"perigee"
)

// able has every ability, or fails at each.
type able struct {
	script
	err error
}

func (a able) CountTokens(context.Context, *perigee.Request) (*perigee.TokenCount, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &perigee.TokenCount{Upstream: "studio", Total: 7}, nil
}

func (a able) Embed(context.Context, *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &perigee.Embeddings{Upstream: "studio", Model: "embedder", Usage: perigee.Usage{Input: 9}}, nil
}

func TestAbilities(t *testing.T) {
	tests := []struct {
		name    string
		next    perigee.Upstream
		outcome perigee.Outcome
		class   perigee.Class
	}{
		{"works", able{}, perigee.OutcomeDone, ""},
		{"fails", able{err: capacity}, perigee.OutcomeFailed, perigee.ClassCapacity},
		{"client goes", able{err: context.Canceled}, perigee.OutcomeCanceled, perigee.ClassCanceled},
		{"cannot", script{}, perigee.OutcomeFailed, perigee.ClassUnimplemented},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var store memory
			r := New(test.next, Options{Store: &store})
			count, countErr := r.CountTokens(t.Context(), request("count"))
			embedded, embedErr := r.Embed(t.Context(), &perigee.EmbedRequest{Origin: perigee.Origin{ID: "embed"}, Model: "e"})
			mustClose(t, r)

			for name, err := range map[string]error{"count": countErr, "embed": embedErr} {
				if test.class == "" && err != nil || test.class != "" && perigee.AsError(err).Class != test.class {
					t.Errorf("%s: got error %v, want class %q", name, err, test.class)
				}
			}
			if test.class == "" && (count.Total != 7 || embedded.Model != "embedder") {
				t.Errorf("got %+v, %+v", count, embedded)
			}
			calls := store.calls()
			if len(calls) != 2 {
				t.Errorf("recorded %v", store.written())
			}
			for operation, call := range map[string]perigee.Call{perigee.OperationCount: calls["count"],
				perigee.OperationEmbed: calls["embed"]} {
				if call.Operation != operation || call.Outcome != test.outcome || call.Class != test.class {
					t.Errorf("%s: recorded %+v", operation, call)
				}
			}
			if test.class == "" && (calls["embed"].Usage.Input != 9 || calls["embed"].Model != "embedder" ||
				calls["count"].Usage.Total() != 0) {
				t.Errorf("recorded %+v", calls)
			}
		})
	}
}

func TestOneLinePerCall(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "first_byte" || a.Key == "duration" {
				return slog.Attr{}
			}
			return a
		},
	}))
	tests := []struct {
		script script
		want   string
	}{
		{script{start, text, usage, finish}, `level=INFO msg="call done" call=c status=200 dialect=openai-chat operation=generate model=gemini-3-flash ` +
			`model_asked=gpt-4o upstream=studio key=laptop client=codex outcome=done input=10 output=3`},
		{script{errors.New("boom")}, `level=WARN msg="call failed" call=c status=500 dialect=openai-chat operation=generate model=gpt-4o ` +
			`key=laptop client=codex outcome=failed class=internal input=0 output=0 error="internal error: boom"`},
	}
	for _, test := range tests {
		out.Reset()
		r := New(test.script, Options{Store: &memory{}, Logger: logger})
		for range r.Stream(t.Context(), request("c")) {
		}
		mustClose(t, r)
		if got := strings.TrimSpace(out.String()); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}
