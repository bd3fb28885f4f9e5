package lsclient

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"

	"perigee"
)

func frameOf(flags byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text)))) + text
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

const idle = `{"update":{"status":"CASCADE_RUN_STATUS_IDLE"},"later":[1]}`

// stream makes the server answer Updates with these bytes.
func (s *serverRig) stream(contentType string, status int, body string) {
	s.handle("StreamAgentStateUpdates", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func collect(ctx context.Context, c *Client) (updates []*jetskicortexpb.AgentStateUpdate, err error) {
	for update, err := range c.Updates(ctx, "c") {
		if err != nil {
			return updates, err
		}
		updates = append(updates, update)
	}
	return updates, nil
}

func TestStreamsEnd(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	c.limits.answer = 1000
	const connectJSON = "application/connect+json"
	for _, s := range []struct {
		name, contentType string
		status            int
		body              string
		updates           int
		class             perigee.Class // empty means no error
		says              string
	}{
		{"at its end", connectJSON, 200, frameOf(0, idle) + frameOf(0, idle) + frameOf(2, `{}`), 2, "", ""},
		{"at an end with metadata", connectJSON, 200, frameOf(2, `{"metadata":{"a":["b"]}}`), 0, "", ""},
		{"at an end without JSON", connectJSON, 200, frameOf(2, ``), 0, "", ""},
		{"after an empty update", connectJSON, 200, frameOf(0, `{}`) + frameOf(0, idle) + frameOf(2, `{}`), 1, "", ""},
		{"compressed", connectJSON, 200, frameOf(1, zipped(idle)) + frameOf(3, zipped(`{}`)), 1, "", ""},
		{"with parameters of the type", connectJSON + "; charset=utf-8", 200, frameOf(0, idle) + frameOf(2, `{}`), 1, "", ""},
		{"replaced", connectJSON, 200, frameOf(0, idle) + frameOf(2, `{"error":{"code":"aborted","message":"subscription closed by repeat id"}}`), 1, perigee.ClassUnavailable, "subscribe again"},
		{"for a conversation that is not there", connectJSON, 200, frameOf(2, `{"error":{"code":"not_found","message":"trajectory not found"}}`), 0, perigee.ClassNotFound, "new conversation"},
		{"without a message", connectJSON, 200, frameOf(2, `{"error":{"code":"internal"}}`), 0, perigee.ClassUnavailable, "internal"},
		{"before the end", connectJSON, 200, frameOf(0, idle), 1, perigee.ClassUnavailable, "broke off"},
		{"inside a head", connectJSON, 200, "\x00\x00", 0, perigee.ClassUnavailable, "broke off"},
		{"inside a frame", connectJSON, 200, frameOf(0, idle)[:20], 0, perigee.ClassUnavailable, "broke off after 15 of 59 bytes"},
		{"in a large frame", connectJSON, 200, frameOf(0, strings.Repeat(" ", 1001)), 0, perigee.ClassUnavailable, "frame of 1001 bytes"},
		{"in a frame that becomes large", connectJSON, 200, frameOf(1, zipped(strings.Repeat(" ", 1001))), 0, perigee.ClassUnavailable, "too large"},
		{"in a frame that only claims to be compressed", connectJSON, 200, frameOf(1, "no"), 0, perigee.ClassUnavailable, "compressed"},
		{"in a frame with a part of a compressed message", connectJSON, 200, frameOf(1, "\x1f"), 0, perigee.ClassUnavailable, "compressed"},
		{"in a frame that is compressed and empty", connectJSON, 200, frameOf(1, ""), 0, perigee.ClassUnavailable, "not JSON"},
		{"in a frame that is no JSON", connectJSON, 200, frameOf(0, "no"), 0, perigee.ClassUnavailable, "not JSON"},
		{"as a call", "application/json", 200, `{}`, 0, perigee.ClassUnavailable, "without a stream"},
		{"of a method that is missing", "text/plain", 404, `404 page not found`, 0, perigee.ClassUnimplemented, ""},
		{"of another type", "text/plain", 415, ``, 0, perigee.ClassUnimplemented, ""},
		{"refused", "application/json", 500, `{"code":"unknown","message":"run state not found"}`, 0, perigee.ClassNotFound, ""},
	} {
		server.stream(s.contentType, s.status, s.body)
		updates, err := collect(t.Context(), c)
		if len(updates) != s.updates || (err == nil) != (s.class == "") {
			t.Errorf("%s: %d updates, %v", s.name, len(updates), err)
			continue
		}
		if err != nil && (perigee.AsError(err).Class != s.class || !strings.Contains(err.Error(), s.says)) {
			t.Errorf("%s: %v, want class %s and %q", s.name, err, s.class, s.says)
		}
	}
}

func TestASilentStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inBubble(t, newServer())
		if _, err := c.Start(t.Context(), StartOptions{Cascade: "c"}); err != nil {
			t.Fatal(err)
		}
		updates, err := collect(t.Context(), c)
		wantClass(t, err, perigee.ClassUnavailable)
		if len(updates) != 1 || !strings.Contains(err.Error(), "silent for 3m0s") {
			t.Errorf("%d updates: %v", len(updates), err)
		}
	})
}

func TestAStreamEndsWithItsCaller(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	if _, err := c.Start(t.Context(), StartOptions{Cascade: "c"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for _, err := range c.Updates(ctx, "c") {
		if err != nil {
			wantClass(t, err, perigee.ClassCanceled)
			break
		}
		cancel()
	}
	cancel()
}

// FuzzFrames reads any stream.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(frameOf(0, idle) + frameOf(2, `{"error":{"code":"x"}}`)))
	f.Add([]byte(frameOf(1, zipped(idle))))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			frame, err := readFrame(r, 1<<16)
			if err != nil {
				if errors.Is(err, io.EOF) {
					t.Fatal("a regular end")
				}
				return
			}
			if int64(len(frame.data)) > 1<<16 {
				t.Fatal("a large frame")
			}
			if frame.message(Endpoint{}, &jetskicortexpb.StreamAgentStateUpdatesResponse{}) != nil {
				return
			}
		}
	})
}
