package record

import (
	"context"
	"log/slog"

	"perigee"
)

// The keys of the line that is logged for each finished call.
const (
	keyCall      = "call"
	keyDialect   = "dialect"
	keyOperation = "operation"
	keyModel     = "model"
	keyUpstream  = "upstream"
	keyKey       = "key"
	keyClient    = "client"
	keyOutcome   = "outcome"
	keyClass     = "class"
	keyFirstByte = "first_byte"
	keyDuration  = "duration"
	keyInput     = "input"
	keyOutput    = "output"
	keyError     = "error"
)

// log writes the one line about a finished call: a warning when it failed or was cut off.
func (r *Recorder) log(ctx context.Context, call *perigee.Call) {
	level := slog.LevelInfo
	if call.Outcome == perigee.OutcomeFailed || call.Outcome == perigee.OutcomeCutOff {
		level = slog.LevelWarn
	}
	if !r.logger.Enabled(ctx, level) {
		return
	}
	model := call.Model
	if model == "" {
		model = call.ModelAsked
	}
	attrs := make([]slog.Attr, 0, 14)
	attrs = append(attrs,
		slog.String(keyCall, call.ID),
		slog.String(keyDialect, string(call.Dialect)),
		slog.String(keyOperation, call.Operation),
		slog.String(keyModel, model),
		slog.String(keyUpstream, call.Upstream),
		slog.String(keyKey, call.Client.Key),
		slog.String(keyClient, call.Client.Name),
		slog.String(keyOutcome, string(call.Outcome)),
		slog.String(keyClass, string(call.Class)),
		slog.Duration(keyFirstByte, call.FirstByte),
		slog.Duration(keyDuration, call.Duration),
		slog.Int64(keyInput, call.Usage.Input),
		slog.Int64(keyOutput, call.Usage.Output))
	if call.Error != "" {
		attrs = append(attrs, slog.String(keyError, call.Error))
	}
	r.logger.LogAttrs(ctx, level, "call "+string(call.Outcome), attrs...)
}
