package adapt

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/dialect/anthropic"
	wire "perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/testing/perigeetest"
)

// A capture is a request that a real client once sent, as the daemon's tests keep them.
type capture struct {
	Name string          `json:"name"`
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// prompt decodes a captured request that asks a model something; nil means it asks for something
// else, or for what no other provider has.
func (c *capture) prompt(t *testing.T) *perigee.Prompt {
	t.Helper()
	origin := perigee.Origin{ID: "r", Body: c.Body}
	var req *perigee.Request
	var err error
	switch {
	case c.Path == "/v1/chat/completions":
		var asked *chat.Request
		if asked, err = chat.DecodeRequest(origin); err == nil {
			req = asked.Request
		}
	case c.Path == "/v1/responses":
		var asked *responses.Request
		if asked, err = responses.DecodeRequest(origin, nil); err == nil {
			req = asked.Request
		}
	case strings.HasPrefix(c.Path, "/v1/messages") && !strings.Contains(c.Path, "count_tokens"):
		req, _, err = anthropic.DecodeRequest(origin)
	case strings.Contains(c.Path, "enerateContent"):
		req, err = wire.DecodeRequest(origin, "x", true)
	}
	if err != nil || req == nil {
		return nil
	}
	p, err := req.Prompt()
	if err != nil {
		return nil
	}
	return p
}

// readCaptures reads all requests of real clients, by file and name.
func readCaptures(t *testing.T) map[string]*capture {
	t.Helper()
	files, err := filepath.Glob("../daemon/testdata/captures/*.jsonl.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files with captures: %v", len(files), err)
	}
	all := map[string]*capture{}
	for _, file := range files {
		packed, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(unpacked); ; {
			var c capture
			if err := lines.Decode(&c); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")+"/"+c.Name] = &c
		}
		_ = packed.Close()
	}
	return all
}

// What real clients send, first requests as well as those that follow a tool call, is acceptable to
// the gateway, for every family and with signatures of unknown issuers.
func TestTheGatewayAcceptsWhatClientsSend(t *testing.T) {
	perigeetest.Slow(t)
	vet := newKeeper(t)
	prepared := 0
	for name, c := range readCaptures(t) {
		p := c.prompt(t)
		if p == nil {
			continue
		}
		for _, model := range []string{claude, flash, "gemini-2.5-pro", image, gptoss} {
			before := string(wire.EncodeRequest(p))
			for _, opts := range []AntigravityOptions{{}, {KeepThinking: true}, {Repair: RepairPairing}, {Repair: RepairSchemas}} {
				out := ForAntigravity(vet(p, model), models.Of(model), opts)
				if refusal := refused(t, model, wire.EncodeRequest(out.Prompt)); refusal != nil {
					t.Errorf("%s to %s with %+v: %s: %s", name, model, opts, refusal.Rule, refusal.Message)
				}
				prepared++
			}
			if after := string(wire.EncodeRequest(p)); after != before {
				t.Errorf("%s to %s: the client's prompt changed", name, model)
			}
		}
	}
	if prepared < 1000 {
		t.Errorf("only %d requests were prepared", prepared)
	}
	t.Logf("%d requests prepared", prepared)
}
