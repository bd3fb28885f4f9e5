package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/route"
	"perigee/internal/route/hold"
	"perigee/internal/route/record"
	"perigee/internal/route/thoughtsig"
	"perigee/internal/server"
)

// A wordDecoder reads the streams and answers of the tests in the Messages dialect: an event with one
// of its words has that meaning.
type wordDecoder struct {
	started, finished  bool
	content, end, fail string
}

func (d *wordDecoder) Decode(events []perigee.Event, chunk []byte) ([]perigee.Event, error) {
	if bytes.Contains(chunk, []byte(d.fail)) {
		return events, openai.DecodeError(0, chunk)
	}
	if !d.started {
		d.started = true
		events = append(events, perigee.Event{Kind: perigee.EventStart, Model: "m"})
	}
	if bytes.Contains(chunk, []byte(d.content)) {
		events = append(events, perigee.Event{Kind: perigee.EventText, Text: "Hi"})
	}
	if bytes.Contains(chunk, []byte(d.end)) {
		d.finished = true
		events = append(events, perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{}})
	}
	return events, nil
}

func (d *wordDecoder) Finished() bool { return d.finished }

// A spoken is a dialect of a client and a provider, and how they talk.
type spoken struct {
	dialect perigee.Dialect
	path    string
	decoder func(bool) decoder
	request string // without stream
	stream  string // of the provider, in blocks: a blank line belongs to the block before it
	first   int    // the index of the first block with content
	whole   string
	failed  string // the error event of the provider
	ours    string // the beginning of perigee's error event
}

var spokenDialects = []spoken{
	{dialect: perigee.DialectOpenAIChat, path: "/v1/chat/completions",
		decoder: func(bool) decoder { return new(chat.Decoder) },
		request: `{"model":"m","messages":[{"role":"user","content":"hi"}],"novelty":[1, 2],"stream":%v }`,
		stream: ": OPENROUTER PROCESSING\n\n" +
			"data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n" +
			": wait\nid: 7\nretry: 10\ndata:{\"choices\":[{\"delta\":{\"content\":\"H\"} ,\"index\":0}]}\n\n" +
			"\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"i\"}}]}\r\n\r\n" +
			": OPENROUTER PROCESSING\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n" +
			"data: [DONE]\n\n",
		first:  2,
		whole:  "{\"id\": \"c1\", \"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}], \"new\":1}\n",
		failed: "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}, \"choices\":[]}\n\n",
		ours:   "data: {\"error\":{\"message\":\"connection lost"},
	{dialect: perigee.DialectOpenAIResponses, path: "/v1/responses",
		decoder: func(streamed bool) decoder { return responses.NewDecoder(streamed) },
		request: `{"model":"m","input":"hi","novelty":[1, 2],"store":false,"stream":%v }`,
		stream: ": hello\n\n" +
			"event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n" +
			"event: response.novelty\r\ndata: {\"type\":\"response.novelty\",\"sequence_number\":1}\r\n\r\n" +
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\",\"sequence_number\":2}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"},\"sequence_number\":3}\n\n",
		first:  3,
		whole:  `{"id": "resp_1","status": "completed","is":"completed"}`,
		failed: "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n",
		ours:   "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"},
	{dialect: perigee.DialectAnthropic, path: "/v1/messages",
		decoder: func(bool) decoder {
			return &wordDecoder{content: "text", end: "stop", fail: "_error"}
		},
		request: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stop_sequences":["x"],"stream":%v }`,
		stream: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\"}}\n\n" +
			"event: ping\ndata: {\"type\": \"ping\"}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n" +
			"event: ping\ndata: {\"type\": \"ping\"}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"        }\n\n",
		first:  2,
		whole:  `{"id": "msg_1","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}`,
		failed: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		ours:   "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\""},
}

// provider returns a provider with this dialect, which gets the client's own bytes.
func (s *spoken) provider(t *testing.T, hides func([]byte) bool) *Provider {
	via := &Wire{dialect: s.dialect, raw: true, decoder: s.decoder,
		target: func(base, _ string, _ bool) string { return base + s.path },
		message: func(req *perigee.Request) (message, error) {
			if !req.Verbatim(s.dialect) {
				t.Error("the request was changed on the way")
			}
			return message{body: [][]byte{req.Body}, hides: hides}, nil
		}}
	return &Provider{
		authorize:     func(h http.Header, key perigee.Secret) { h.Set("Authorization", "Bearer "+key.Reveal()) },
		wire:          func(*perigee.Request) *Wire { return via },
		header:        http.Header{"Anthropic-Version": {"2023-06-01"}},
		clientHeaders: []string{"Anthropic-", "Openai-"},
		decodeError:   openai.DecodeError,
		checkAnswer:   func([]byte) error { return nil },
	}
}

// A relayRig is the whole way of a call, from a client to a provider, both over HTTP.
type relayRig struct {
	url    string
	server *server.Server
}

var rigSettings = server.Settings{MaxBody: 16 << 20, Loopback: true}

// newRelayRig returns a rig with an upstream for each answer, called p, q and so on.
func newRelayRig(t *testing.T, provider *Provider, opts Options, answers ...http.HandlerFunc) *relayRig {
	t.Helper()
	var targets []route.Target
	for i, answer := range answers {
		remote := httptest.NewServer(answer)
		t.Cleanup(remote.Close)
		opts.Name, opts.URL, opts.UserAgent = string(rune('p'+i)), remote.URL, "perigee/test"
		opts.Keys = []perigee.Secret{perigee.NewSecret("sk-secret-of-perigee")}
		u := New(provider, opts)
		t.Cleanup(func() { _ = u.Close() })
		targets = append(targets, route.Target{Name: opts.Name, Upstream: hold.AtStopSequences(thoughtsig.NewMemory(thoughtsig.Options{}).Around(u))})
	}
	router, err := route.New(route.Options{Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	recorder := record.New(router, record.Options{Store: noStore{}})
	t.Cleanup(func() { _ = recorder.Close(context.Background()) })
	api := server.New(server.Options{Upstream: recorder, Responses: &storeRig{}, Forwards: router.Forwards}, rigSettings)
	t.Cleanup(api.Close)
	front := httptest.NewServer(api)
	t.Cleanup(front.Close)
	return &relayRig{front.URL, api}
}

// A storeRig keeps the responses of one key.
type storeRig struct{ kept sync.Map }

func (s *storeRig) SaveResponse(_ context.Context, r *perigee.StoredResponse) error {
	s.kept.Store(r.ID, r)
	return nil
}

func (s *storeRig) Response(_ context.Context, _, id string) (*perigee.StoredResponse, error) {
	if r, ok := s.kept.Load(id); ok {
		return r.(*perigee.StoredResponse), nil
	}
	return nil, perigee.Errorf(perigee.ClassNotFound, "no response %s", id)
}

func (s *storeRig) ResponseSize(ctx context.Context, key, id string) (int64, error) {
	r, err := s.Response(ctx, key, id)
	if err != nil {
		return 0, err
	}
	return int64(len(r.Response) + len(r.Input) + len(r.Output)), nil
}

func (s *storeRig) DeleteResponse(_ context.Context, _, id string) error {
	s.kept.Delete(id)
	return nil
}

type noStore struct{}

func (noStore) SaveCalls(context.Context, []perigee.Call) error { return nil }

// ask makes a call and returns the answer with its body.
func (r *relayRig) ask(t *testing.T, path, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return resp, string(got)
}

// sends answers with a stream in pieces of a size.
func sends(stream string, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for rest := stream; rest != ""; {
			n := min(size, len(rest))
			_, _ = io.WriteString(w, rest[:n])
			_ = http.NewResponseController(w).Flush()
			rest = rest[n:]
		}
	}
}

// blocks are the blocks of a stream.
func blocks(stream string) (list []string) {
	for stream != "" {
		end := 0
		for _, mark := range []string{"\n\n", "\r\n\r\n"} {
			if i := strings.Index(stream, mark); i >= 0 && (end == 0 || i+len(mark) < end) {
				end = i + len(mark)
			}
		}
		if strings.HasPrefix(stream, "\n") {
			end = 1
		}
		list, stream = append(list, stream[:end]), stream[end:]
	}
	return list
}

// The answer to a request in the provider's own dialect is the provider's, byte for byte, whole or
// as a stream that arrives in pieces of any size.
func TestForwardedAnswersAreByteForByte(t *testing.T) {
	for _, s := range spokenDialects {
		for _, size := range []int{1, 7, 1 << 20} {
			rig := newRelayRig(t, s.provider(t, nil), Options{}, sends(s.stream, size))
			resp, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
			if got != s.stream || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("%s, pieces of %d: %d\n%q, want\n%q", s.dialect, size, resp.StatusCode, got, s.stream)
			}
		}
		rig := newRelayRig(t, s.provider(t, nil), Options{}, func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) != fmt.Sprintf(s.request, false) {
				t.Errorf("%s: the provider got %s", s.dialect, body)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, s.whole)
		})
		if _, got := rig.ask(t, s.path, fmt.Sprintf(s.request, false), nil); got != s.whole {
			t.Errorf("%s, whole: %q, want %q", s.dialect, got, s.whole)
		}
	}
}

// After the provider's bytes of a stream that was cut comes one error event of the dialect. Before
// the first content, the error is a status.
func TestForwardedStreamsThatAreCut(t *testing.T) {
	for _, s := range spokenDialects {
		list := blocks(s.stream)
		for n := range list {
			if strings.Contains(list[n], "stop") || strings.Contains(list[n], "completed") {
				break // it is complete
			}
			before := strings.Join(list[:n+1], "")
			for _, end := range []string{"", "data: [DONE]\n\n", s.failed} {
				rig := newRelayRig(t, s.provider(t, nil), Options{}, sends(before+end, 1<<20))
				resp, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
				if n < s.first {
					if resp.StatusCode < 500 || !strings.Contains(got, `"error"`) {
						t.Errorf("%s, cut after %d, %q: %d %q", s.dialect, n+1, end, resp.StatusCode, got)
					}
					continue
				}
				rest, ok := strings.CutPrefix(got, before)
				if end == s.failed {
					ok = ok && rest == s.failed
				} else {
					ok = ok && strings.HasPrefix(rest, s.ours) && strings.HasSuffix(rest, "\n\n") && strings.Count(rest, "\n\n") == 1
				}
				if !ok {
					t.Errorf("%s, cut after %d, %q: %q", s.dialect, n+1, end, got)
				}
			}
		}
	}
}

// An event without its blank line is ended before the error.
func TestForwardedStreamWithoutItsLastLineEnd(t *testing.T) {
	s := spokenDialects[0]
	stream := strings.TrimSpace(strings.Join(blocks(s.stream)[:s.first+1], ""))
	rig := newRelayRig(t, s.provider(t, nil), Options{}, sends(stream, 1<<20))
	if _, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil); !strings.HasPrefix(got, stream+"\n\n"+s.ours) {
		t.Errorf("got %q", got)
	}
}

// A finish reason without [DONE] is complete, and nothing is added. A chunk that only perigee has
// asked for is not shown.
func TestForwardedChatStreams(t *testing.T) {
	s := spokenDialects[0]
	usage := "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"
	without := strings.TrimSuffix(s.stream, "data: [DONE]\n\n")
	for _, c := range []struct {
		name, sent, want string
		hides            func([]byte) bool
	}{
		{"no [DONE]", without, without, nil},
		{"a hidden chunk", s.stream, strings.Replace(s.stream, usage, "", 1), chat.IsUsageChunk},
		{"a comment behind the end", s.stream + ": bye\n", s.stream + ": bye\n", nil},
	} {
		rig := newRelayRig(t, s.provider(t, c.hides), Options{}, sends(c.sent, 1<<20))
		if _, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil); got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
}

// A server that answers a request for a stream in one piece is translated.
func TestForwardedRequestForAStreamThatIsAnsweredWhole(t *testing.T) {
	s := spokenDialects[0]
	rig := newRelayRig(t, s.provider(t, nil), Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, s.whole)
	})
	_, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
	if !strings.Contains(got, `"content":"Hi"`) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("got %q", got)
	}
}

// Before its first content, an answer in the client's own dialect can still come from another
// upstream: frames without content are held back. The last error passes unchanged.
func TestForwardedRequestsFailOver(t *testing.T) {
	for _, s := range spokenDialects {
		begun := strings.Join(blocks(s.stream)[:s.first], "") + s.failed
		rig := newRelayRig(t, s.provider(t, nil), Options{}, sends(begun, 1<<20), sends(s.stream, 1<<20))
		resp, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
		if got != s.stream || resp.Header.Get("X-Perigee-Upstream") != "q" {
			t.Errorf("%s: %s %q", s.dialect, resp.Header.Get("X-Perigee-Upstream"), got)
		}
	}
}

// What perigee could not translate is no note, and no error with strict, if it need not.
func TestForwardedRequestsHaveNoNotes(t *testing.T) {
	s := spokenDialects[0]
	rig := newRelayRig(t, s.provider(t, nil), Options{}, sends(s.stream, 1<<20))
	for _, strict := range []bool{false, true} {
		settings := rigSettings
		settings.Strict = strict
		rig.server.Apply(settings)
		resp, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
		if resp.StatusCode != http.StatusOK || got != s.stream || resp.Header.Get("X-Perigee-Notes") != "" {
			t.Errorf("strict %v: %d %s %q", strict, resp.StatusCode, resp.Header.Get("X-Perigee-Notes"), got)
		}
	}
	encoded := s.provider(t, nil)
	encoded.wire(nil).dialect = perigee.DialectAnthropic
	encoded.wire(nil).message = func(*perigee.Request) (message, error) { return message{body: [][]byte{[]byte("{}")}}, nil }
	rig = newRelayRig(t, encoded, Options{}, sends(s.stream, 1<<20))
	resp, _ := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
	if notes := resp.Header.Get("X-Perigee-Notes"); resp.StatusCode != http.StatusOK || !strings.Contains(notes, "novelty") {
		t.Errorf("translated: %d %q", resp.StatusCode, notes)
	}
}
