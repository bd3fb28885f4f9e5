package record

import (
	"context"
	"log/slog"
	"strings"

	"perigee"
)

// The keys of the line that is logged for each finished call. What is empty is left out.
const (
	keyCall       = "call"
	keyStatus     = "status"
	keyDialect    = "dialect"
	keyOperation  = "operation"
	keyModel      = "model"
	keyModelAsked = "model_asked" // where another model answered
	keyUpstream   = "upstream"
	keyKey        = "key"
	keyClient     = "client"
	keyOutcome    = "outcome"
	keyClass      = "class"
	keyFirstByte  = "first_byte"
	keyDuration   = "duration"
	keyInput      = "input"
	keyOutput     = "output"
	keyNotes      = "notes"
	keyReplayOf   = "replay_of"
	keyError      = "error"
)

// log writes the one line about a finished call: a warning when it failed or was cut off, unless it is a quiet one or a replay, of
// which the owner knows.
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
	word(keyCall, call.ID)
	if call.ClientStatus != 0 {
		attrs = append(attrs, slog.Int(keyStatus, call.ClientStatus))
	}
	word(keyDialect, string(call.Dialect))
	word(keyOperation, call.Operation)
	word(keyModel, model)
	word(keyModelAsked, asked)
	word(keyUpstream, call.Upstream)
	word(keyKey, call.Client.Key)
	word(keyClient, call.Client.Name)
	word(keyReplayOf, call.ReplayOf)
	word(keyOutcome, string(call.Outcome))
	word(keyClass, string(call.Class))
	if call.FirstByte > 0 {
		attrs = append(attrs, slog.Duration(keyFirstByte, call.FirstByte))
	}
	attrs = append(attrs, slog.Duration(keyDuration, call.Duration),
		slog.Int64(keyInput, call.Usage.Input), slog.Int64(keyOutput, call.Usage.Output))
	word(keyNotes, strings.Join(call.Notes, "; "))
	word(keyError, call.Error)
	r.opts.Logger.LogAttrs(ctx, level, "call "+string(call.Outcome), attrs...)
}
