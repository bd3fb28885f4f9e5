package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/responses"
)

// replayWanted reads whether a stored response is wanted as a stream, and after which event.
func (c *call) replayWanted() (stream bool, after int64, err error) {
	query := c.r.URL.Query()
	switch word := query.Get("stream"); word {
	case "", "false":
	case "true":
		stream = true
	default:
		return false, 0, openai.Wrong("stream", "want true or false, found %q", shorten(word))
	}
	after = -1
	if number := query.Get("starting_after"); number != "" {
		if after, err = strconv.ParseInt(number, 10, 64); err != nil || after < 0 {
			return false, 0, openai.Wrong("starting_after", "want the number of an event, found %q", shorten(number))
		}
		if !stream {
			return false, 0, openai.Wrong("starting_after", "a response that comes in one piece has no events").WithNext("ask with stream=true")
		}
	}
	return stream, after, nil
}

// responsesReplay answers with a stored response as a stream. One that is still being made is waited for.
func (c *call) responsesReplay(r *perigee.StoredResponse, after int64) error {
	if running := c.behind.find(r.ID, c.keyName()); running != nil {
		if err := c.await(running); err != nil {
			if c.wrote {
				return nil // there is nobody left to tell
			}
			return err
		}
	}
	// Also where nobody works on it now: it may have ended since it was read.
	r, _, err := c.stored()
	if err != nil {
		if !c.wrote {
			return err
		}
		c.sendEvents(responses.ReplayError(c.trouble(err)))
		return nil
	}
	c.sendEvents(responses.Replay(r.Response, after))
	return nil
}

// await waits until what comes of a run is stored, with a sign of life for the client now and then.
func (c *call) await(running *run) error {
	ticker := time.NewTicker(c.state.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-running.done:
			return nil
		case <-c.r.Context().Done():
			return c.r.Context().Err()
		case <-ticker.C:
			c.sendEvents(responses.ReplayIdle())
		}
	}
}

// sendEvents sends a piece of a stream, after the head if that is not out yet.
func (c *call) sendEvents(events []byte) {
	if !c.wrote {
		h := c.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx would gather the stream otherwise
		c.writeHead(http.StatusOK)
	}
	control := http.NewResponseController(c.w)
	for piece := range slices.Chunk(events, writePiece) {
		_ = control.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer can; then there is no limit
		if _, err := c.w.Write(piece); err != nil {
			return // a client that is gone cannot be told
		}
	}
	_ = control.Flush()
}
