// Package relay carries asks over HTTP, from a command to the daemon that has them answered. The answer is a line of JSON for each
// progress and one for the end. A client that goes away cancels its ask.
package relay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/server/mount"
)

// Path is where the daemon takes asks of the owner.
const Path = "/v1/ask"

// A line is one of the answer: progress, or the end.
type line struct {
	Progress *ask.Progress `json:"progress,omitzero"`
	Answer   *ask.Answer   `json:"answer,omitzero"`
	Error    *ask.Failure  `json:"error,omitzero"` // nothing was handed over
}

// Point returns the path at which asks are answered.
func Point(asker ask.Asker) mount.Point {
	return mount.Methods{http.MethodPost: func(w http.ResponseWriter, r *http.Request) error {
		var request ask.Request
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return perigee.Errorf(perigee.ClassInvalid, "the body is not a valid prompt: %w", err)
		}
		request.ID = mount.CallOf(r).ID
		mount.StreamHeader(w.Header(), "application/jsonl")
		w.WriteHeader(http.StatusOK) // which says that the daemon has the ask
		out := http.NewResponseController(w)
		_ = out.Flush()
		// A client that is gone has its ask cancelled, so errors need no attention.
		write := func(l line) {
			if err := json.NewEncoder(w).Encode(l); err == nil {
				_ = out.Flush()
			}
		}
		progress := func(p ask.Progress) { write(line{Progress: &p}) }
		answer, err := asker.Ask(r.Context(), request, progress)
		end := line{Answer: &answer}
		if err != nil {
			end = line{Error: ask.Fail(err).Error}
		}
		write(end)
		return nil
	}}.At(Path, mount.Admin)
}

// A Client is an ask.Asker that has the daemon answer.
type Client struct {
	HTTP *http.Client
	URL  string // of the daemon, without a path
}

// maxLine bounds a line, which has the whole text of an answer.
const maxLine = 256 << 20

// Ask sends an ask to the daemon, which bounds its time.
func (c *Client) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return ask.Answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+Path, bytes.NewReader(body))
	if err != nil {
		return ask.Answer{}, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return lost(ctx), nil
		}
		// The head comes before the daemon has the ask answered, so a daemon that ends without one has handed nothing over.
		return ask.Answer{}, ask.Declined(perigee.ClassUnavailable, "the daemon does not answer")
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return ask.Answer{}, ask.Declined(perigee.ClassUnavailable, "the daemon is ending")
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return ask.Answer{}, perigee.Errorf(perigee.ClassInternal, "the daemon answered %s: %s", resp.Status, bytes.TrimSpace(text)).
			WithHint("it may be of another version: restart it")
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return ask.Fail(fmt.Errorf("the daemon's answer cannot be read, it may be of another version: %w", err)), nil
		}
		switch {
		case l.Answer != nil:
			return *l.Answer, nil
		case l.Error != nil:
			return ask.Answer{}, &perigee.Error{Class: l.Error.Class, Message: l.Error.Message, Hint: l.Error.Hint}
		case l.Progress != nil && progress != nil:
			progress(*l.Progress)
		}
	}
	return lost(ctx), nil
}

// lost is the answer to an ask whose connection has ended.
func lost(ctx context.Context) ask.Answer {
	if ctx.Err() != nil {
		return ask.Answer{Status: ask.Cancelled}
	}
	return ask.Fail(perigee.Errorf(perigee.ClassUnavailable, "the daemon ended before its answer; the prompt may have been answered").
		WithHint("look at what has changed before you ask again"))
}
