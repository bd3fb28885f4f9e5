package api

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

// A copier keeps the body of an answer.
type copier struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (c *copier) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

func (c *copier) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// The requests of real clients reach a provider of their dialect byte for byte, and so do its
// answers or errors on the way back.
func TestCapturesAreForwardedByteForByte(t *testing.T) {
	streamed := map[perigee.Dialect]string{perigee.DialectOpenAIResponses: "event: response.completed", perigee.DialectAnthropic: "event: message_stop"}
	for _, s := range spokenDialects {
		if s.dialect == perigee.DialectAnthropic {
			s.decoder = func(stream bool) decoder {
				d := &wordDecoder{content: "delta", end: `"message_stop"`, fail: "\x00"}
				if !stream {
					d.end = `"id"`
				}
				return d
			}
		}
		sim, err := simulator.New(simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		bodies := make(chan [2]string, 8)
		rig := newRelayRig(t, s.provider(t, nil), Options{}, func(w http.ResponseWriter, r *http.Request) {
			asked, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(asked))
			kept := &copier{ResponseWriter: w}
			sim.ServeHTTP(kept, r)
			bodies <- [2]string{string(asked), kept.body.String()}
		})
		count, finished := 0, 0
		ask := func(c *capture) {
			header := http.Header{}
			for name, value := range c.Headers {
				header.Set(name, value)
			}
			resp, got := rig.ask(t, c.Path, string(c.Body), header)
			if resp.Header.Get("X-Perigee-Upstream") == "" {
				t.Errorf("%s: refused: %s", c.Name, got)
				return
			}
			sent := await.Receive(t, bodies, "the answer of the provider")
			for len(bodies) > 0 { // a successor of the model was asked
				sent = await.Receive(t, bodies, "the answer of the provider")
			}
			if sent[0] != string(c.Body) || sent[1] != got {
				t.Errorf("%s: %d\nthe provider got  %.300q\nfor               %.300q\nthe client got    %.300q\nof                %.300q", c.Name, resp.StatusCode, sent[0], c.Body, got, sent[1])
			}
			if count++; resp.StatusCode == http.StatusOK && bytes.Contains([]byte(got), []byte(streamed[s.dialect])) {
				finished++
			}
		}
		for _, c := range captures(t) {
			if path, _, _ := strings.Cut(c.Path, "?"); path == s.path {
				ask(c)
			}
		}
		if count < 5 || finished == 0 {
			t.Errorf("%s: %d captures, %d finished", s.dialect, count, finished)
		}
	}
}
