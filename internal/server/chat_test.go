package server_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/testing/perigeetest"
)

// An imagesRig draws a picture for each time it is asked, until it is tired.
type imagesRig struct {
	ids   []string
	tired int // after so many
}

func (p *imagesRig) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		p.ids = append(p.ids, req.ID)
		if len(p.ids) > p.tired {
			yield(perigee.Event{}, perigee.Errorf(perigee.ClassCapacity, "no more paint"))
			return
		}
		picture := &perigee.Blob{MIME: "image/png", Data: fmt.Sprint("AAA", len(p.ids))}
		usage := &perigee.Usage{Input: 1, Output: 10}
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventBlob, Blob: picture}, nil) &&
			yield(perigee.Event{Kind: perigee.EventUsage, Usage: usage}, nil) && yield(end, nil)
	}
}

// Several pictures are several calls, each with an id of its own, and the usage is that of all.
func TestImagesAreDrawnOneByOne(t *testing.T) {
	for _, c := range []struct {
		tired, status int
		want          string
	}{
		{3, http.StatusOK, `{"created":1773480413,"data":[{"b64_json":"AAA1"},{"b64_json":"AAA2"},{"b64_json":"AAA3"}],"usage":{"input_tokens":3,"output_tokens":30,"total_tokens":33}}`},
		{2, http.StatusServiceUnavailable, `no more paint`},
	} {
		upstream, ids, clock := &imagesRig{tired: c.tired}, &perigeetest.IDs{}, &perigeetest.Clock{}
		api := server.New(server.Options{Upstream: upstream, Now: clock.Now, NewID: ids.New}, server.Settings{MaxBody: 1 << 20})
		w := httptest.NewRecorder()
		api.Trusted().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/images/generations",
			strings.NewReader(`{"model":"m","prompt":"a cat","n":3}`)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("got %d: %s", w.Code, w.Body)
		}
		if want := []string{"call-0001", "call-0002", "call-0003"}; !slices.Equal(upstream.ids, want) {
			t.Errorf("calls %v", upstream.ids)
		}
	}
}

// A stream that is quiet for long shows signs of life that mean nothing to clients of this API.
func TestChatStreamStaysAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := serve(t, script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
			quietFor(ctx, 40*time.Second)
			_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "hi"}, nil) && yield(end, nil)
		}), t.Context())
		resp, err := client.Post("http://localhost/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(body); !strings.HasPrefix(got, ": keep-alive\n\n: keep-alive\n\ndata: {") ||
			!strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("got %q", got)
		}
	})
}
