package server

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
	"perigee/internal/route/record"
)

// lineDialect is a whole dialect: a request is a line "model: text", an answer is the text, and an
// error is a line that begins with !.
var lineDialect = dialect{
	name:      "line",
	owns:      func(path string, _ http.Header) bool { return strings.HasPrefix(path, "/line/") },
	requestID: "X-Line-Id",
	encodeError: func(_ *call, _ int, err *perigee.Error) []byte {
		return []byte("!" + string(err.Class) + " " + err.Message + "\n")
	},
	endpoints: []endpoint{
		{path: "/line/ask", operation: perigee.OperationGenerate, decode: decodeLine(false)},
		{path: "/line/stream", operation: perigee.OperationGenerate, decode: decodeLine(true)},
	},
}

func decodeLine(stream bool) func(*call, perigee.Origin) (*exchange, error) {
	return func(_ *call, origin perigee.Origin) (*exchange, error) {
		model, text, ok := strings.Cut(string(origin.Body), ": ")
		if !ok {
			return nil, perigee.Errorf(perigee.ClassInvalid, "want model: text")
		}
		prompt := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain(text)}}}}}
		return &exchange{
			request: perigee.NewRequest(origin, model, stream, func() (*perigee.Prompt, error) { return prompt, nil }),
			stream:  func(*perigee.Request) streamEncoder { return lineStream{} },
			collect: func(*perigee.Request) collector { return &lineCollector{} },
		}, nil
	}
}

type lineStream struct{}

func (lineStream) ContentType() string { return "text/plain" }
func (lineStream) Encode(dst []byte, ev *perigee.Event) []byte {
	if ev.Kind == perigee.EventText {
		dst = append(dst, ev.Text+"\n"...)
	}
	return dst
}
func (lineStream) End(dst []byte) []byte { return append(dst, ".\n"...) }
func (lineStream) Fail(dst []byte, status int, err *perigee.Error) []byte {
	return append(dst, lineDialect.encodeError(nil, status, err)...)
}
func (lineStream) Idle(dst []byte) []byte { return append(dst, '\n') }

type lineCollector struct{ bytes.Buffer }

func (c *lineCollector) Add(ev *perigee.Event) { c.WriteString(ev.Text) }

// An echo is an upstream that answers with the prompt, or fails with what the model's name says.
type echo struct{}

func (echo) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		prompt, err := req.Prompt()
		switch {
		case err != nil:
			yield(perigee.Event{}, err)
		case req.Model == "empty":
			yield(perigee.Event{}, perigee.Errorf(perigee.ClassExhausted, "no quota"))
		case !yield(perigee.Event{Kind: perigee.EventStart, Upstream: "echo", Model: req.Model}, nil):
		case !yield(perigee.Event{Kind: perigee.EventText, Text: rawjson.Unescaped(prompt.Contents[0].Parts[0].Text.Form())}, nil):
		case req.Model == "broken":
			yield(perigee.Event{}, perigee.Errorf(perigee.ClassUnavailable, "it broke"))
		default:
			yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}, nil)
		}
	}
}

type callList []perigee.Call

func (l *callList) SaveCalls(_ context.Context, calls []perigee.Call) error {
	*l = append(*l, calls...)
	return nil
}

// A dialect is a codec and an entry in the table: its calls have the limits, the records and the
// checks of all dialects, and its errors have its own shape, wherever they come from.
func TestNewDialect(t *testing.T) {
	var saved callList
	recorder := record.New(echo{}, record.Options{Store: &saved})
	s := newServer(Options{Upstream: recorder, Refused: recorder.Refused},
		Settings{MaxBody: 100, Strict: true, Keys: []Key{{Name: "laptop", Secret: perigee.NewSecret("good"),
			Models: []string{"m", "empty", "broken"}}}},
		append([]*dialect{&lineDialect}, dialects...))
	for _, test := range []struct {
		path, key, body string
		status          int
		want            string
	}{
		{"/line/ask", "good", "m: hello", 200, "hello"},
		{"/line/stream", "good", "m: hello", 200, "hello\n.\n"},
		{"/line/stream", "good", "broken: hello", 200, "hello\n!unavailable it broke\n"},
		{"/line/ask", "good", "empty: hello", 429, "!exhausted no quota\n"},
		{"/line/ask", "good", "hello", 400, "!invalid want model: text\n"},
		{"/line/ask", "good", "other: hello", 403, "!forbidden key laptop is not allowed"},
		{"/line/ask?color=red", "good", "m: hello", 400,
			"!invalid the request cannot be sent without changes: dropped query parameter color"},
		{"/line/ask", "good", "m: " + strings.Repeat("x", 100), 413, "!invalid the body is larger"},
		{"/line/ask", "bad", "m: hello", 401, "!unauthenticated unknown key\n"},
		{"/line/asks", "good", "m: hello", 404, "!not_found no such path"},
		{"/v1/chat/completions", "good", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`, 200, `"content":"hello"`},
	} {
		r := httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body))
		r.Header.Set("X-Api-Key", test.key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) || w.Header().Get("X-Perigee-Call") == "" {
			t.Errorf("%s %s: %d %v %s", test.path, test.body, w.Code, w.Header(), w.Body)
		}
	}
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, c := range saved {
		if c.Dialect == "line" && c.Outcome != perigee.OutcomeOpen {
			ended++
		}
	}
	if ended != 8 {
		t.Errorf("%d calls are recorded", ended)
	}
	if !slices.ContainsFunc(saved, func(c perigee.Call) bool {
		return c.Class == perigee.ClassForbidden && c.ModelAsked == "other" && c.Client.Key == "laptop"
	}) {
		t.Errorf("no refusal is recorded in %+v", saved)
	}
}
