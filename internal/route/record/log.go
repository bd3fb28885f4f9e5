package record

import (
	"context"
	"log/slog"
	"strings"

	"perigee"
)

// log writes one line about a finished call: a warning if it failed or was cut off, unless it is
// quiet or a replay. Empty values are left out.
func (r *Recorder) log(ctx context.Context, call *perigee.Call, quiet bool) {
	level := slog.LevelInfo
	switch failed := call.Outcome == perigee.OutcomeFailed || call.Outcome == perigee.OutcomeCutOff; {
	case quiet:
		level = slog.LevelDebug
	case failed && call.ReplayOf == "":
		level = slog.LevelWarn
	}
	if !r.opts.Logger.Enabled(ctx, level) {
		return
	}
	model, asked := call.Model, call.ModelAsked
	if model == "" || model == asked {
		model, asked = asked, ""
	}
	attrs := make([]slog.Attr, 0, 18)
	word := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	word("call", call.ID)
	if call.ClientStatus != 0 {
		attrs = append(attrs, slog.Int("status", call.ClientStatus))
	}
	word("dialect", string(call.Dialect))
	word("operation", call.Operation)
	word("model", model)
	word("model_asked", asked) // where another model answered
	word("upstream", call.Upstream)
	word("key", call.Client.Key)
	word("client", call.Client.Name)
	word("replay_of", call.ReplayOf)
	word("outcome", string(call.Outcome))
	word("class", string(call.Class))
	if call.FirstByte > 0 {
		attrs = append(attrs, slog.Duration("first_byte", call.FirstByte))
	}
	attrs = append(attrs, slog.Duration("duration", call.Duration),
		slog.Int64("input", call.Usage.Input), slog.Int64("output", call.Usage.Output))
	word("notes", strings.Join(call.Notes, "; "))
	word("error", call.Error)
	r.opts.Logger.LogAttrs(ctx, level, "call "+string(call.Outcome), attrs...)
}
