package replay

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/lib/sse"
	"perigee/internal/route/record"
	"perigee/internal/server/mount"
	"perigee/internal/upstream/antigravity"
)

// maxWhole is how much of an answer in one piece is read for its usage.
const maxWhole = 16 << 20

// sendRaw sends the last request to a provider again and writes the provider's answer. The call is
// recorded.
func (s *Service) sendRaw(w http.ResponseWriter, r *http.Request, of *recording, change Change) error {
	ctx := r.Context()
	recorder := s.opts.Recorder()
	meta := &of.Meta
	req := &perigee.RawRequest{Operation: meta.Operation, Model: meta.Model, Stream: meta.Stream, Sent: of.sent}
	req.Origin = perigee.Origin{ID: s.opts.NewID(), Dialect: meta.Dialect, Method: meta.Method, Path: meta.Path, Log: &perigee.CallLog{},
		Client: perigee.Client{Name: meta.ClientName, Session: meta.Session, Agent: meta.Agent, ParentAgent: meta.ParentAgent},
		Replay: perigee.Replay{Of: of.id(), Upstream: cmp.Or(change.Upstream, of.last.Upstream, meta.Upstream)}}
	w.Header().Set("X-Perigee-Call", req.ID)
	defer req.Log.Close()
	observed := recorder.Begin(record.Operation{Name: meta.Operation, Model: meta.ModelAsked, Stream: meta.Stream}, &req.Origin)
	defer observed.End(ctx)
	began := false
	err := recorder.SendRaw(ctx, req, func(answer perigee.RawAnswer) error {
		began = true
		observed.Observe(&perigee.Event{Kind: perigee.EventStart, Upstream: req.Replay.Upstream, Model: req.Model, Account: answer.Account})
		mount.Describe(w, req.Replay.Upstream, req.Model)
		mount.StreamHeader(w.Header(), answer.ContentType)
		req.Log.SetStatus(answer.Status)
		w.WriteHeader(answer.Status)
		out := &rawWriter{w: w, tap: req.Log.Tap()}
		if answer.Status != http.StatusOK {
			explanation, err := io.ReadAll(io.TeeReader(answer.Body, out))
			if err != nil {
				return err
			}
			return gemini.DecodeError(answer.Status, explanation)
		}
		return pass(answer, out, observed)
	})
	if err != nil {
		observed.Fail(err)
	}
	if began {
		return nil // the client has got the answer as far as there is one
	}
	return err
}

// pass copies an answer and shows its usage and its end to the record.
func pass(answer perigee.RawAnswer, out io.Writer, observed *record.Observation) error {
	body := io.TeeReader(answer.Body, out)
	decoder := gemini.Decoder{Envelope: antigravity.ResponseMember}
	show := func(chunk []byte) {
		events, err := decoder.Decode(nil, chunk)
		if err != nil {
			return // the client gets the chunk in any case
		}
		for i := range events {
			observed.Observe(&events[i])
		}
	}
	if kind, _, _ := mime.ParseMediaType(answer.ContentType); kind != "text/event-stream" {
		whole, err := io.ReadAll(io.LimitReader(body, maxWhole))
		if err == nil {
			_, err = io.Copy(io.Discard, body)
		}
		show(whole)
		if !decoder.Finished() {
			observed.Observe(&perigee.Event{Kind: perigee.EventFinish}) // a count, or vectors
		}
		return err
	}
	events := sse.NewReader(body)
	for {
		event, err := events.Next()
		if len(event.Data) > 0 {
			show(event.Data)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A rawWriter sends each piece at once.
type rawWriter struct {
	w   http.ResponseWriter
	tap perigee.Tap
}

func (w *rawWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if w.tap != nil {
		w.tap.Body(perigee.TapClientAnswer, p[:n])
	}
	if err == nil {
		err = http.NewResponseController(w.w).Flush()
	}
	return n, err
}
