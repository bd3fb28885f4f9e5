package ask

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"perigee"
	"perigee/internal/server/mount"
)

// RelayPath is the path at which the daemon accepts asks of the owner.
const RelayPath = "/v1/ask"

// A line is one line of the answer: progress, or the end.
type line struct {
	Progress *Progress `json:"progress,omitzero"`
	Answer   *Answer   `json:"answer,omitzero"`
	Error    *Failure  `json:"error,omitzero"` // nothing was handed over
}

// RelayPoint returns the path at which asks are answered.
func RelayPoint(asker Asker) mount.Point {
	return mount.Methods{http.MethodPost: func(w http.ResponseWriter, r *http.Request) error {
		var request Request
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return perigee.Errorf(perigee.ClassInvalid, "the body is not a valid prompt: %w", err)
		}
		request.ID = mount.CallOf(r).ID
		mount.StreamHeader(w.Header(), "application/jsonl")
		w.WriteHeader(http.StatusOK) // confirms that the daemon has the ask
		out := http.NewResponseController(w)
		_ = out.Flush()
		// The ask of a client that has left is cancelled, so errors can be ignored.
		write := func(l line) {
			if err := json.NewEncoder(w).Encode(l); err == nil {
				_ = out.Flush()
			}
		}
		progress := func(p Progress) { write(line{Progress: &p}) }
		answer, err := asker.Ask(r.Context(), request, progress)
		end := line{Answer: &answer}
		if err != nil {
			end = line{Error: Fail(err).Error}
		}
		write(end)
		return nil
	}}.At(RelayPath, mount.Admin)
}

// A RelayClient is an Asker that forwards asks to the daemon.
type RelayClient struct {
	HTTP *http.Client
	URL  string // URL of the daemon, without a path
}

// maxLine bounds a line, which has the whole text of an answer.
const maxLine = 256 << 20

// Ask sends an ask to the daemon, which bounds its time.
func (c *RelayClient) Ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+RelayPath, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return lost(ctx), nil
		}
		// The head is sent before the daemon processes the ask, so a daemon that ends without one
		// has handed nothing over.
		return Answer{}, Declined(perigee.ClassUnavailable, "the daemon does not answer")
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return Answer{}, Declined(perigee.ClassUnavailable, "the daemon is ending")
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return Answer{}, perigee.Errorf(perigee.ClassInternal, "the daemon answered %s: %s", resp.Status, bytes.TrimSpace(text)).
			WithHint("it may be of another version: restart it")
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return Fail(fmt.Errorf("the daemon's answer cannot be read, it may be of another version: %w", err)), nil
		}
		switch {
		case l.Answer != nil:
			return *l.Answer, nil
		case l.Error != nil:
			return Answer{}, &perigee.Error{Class: l.Error.Class, Message: l.Error.Message, Hint: l.Error.Hint}
		case l.Progress != nil && progress != nil:
			progress(*l.Progress)
		}
	}
	return lost(ctx), nil
}

// lost returns the answer to an ask with a connection that has ended.
func lost(ctx context.Context) Answer {
	if ctx.Err() != nil {
		return Answer{Status: Cancelled}
	}
	return Fail(perigee.Errorf(perigee.ClassUnavailable, "the daemon ended before its answer; the prompt may have been answered").
		WithHint("look at what has changed before you ask again"))
}
