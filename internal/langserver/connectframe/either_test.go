package connectframe

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	extensionserverpb "perigee/gen/exa/extension_server_pb"
)

func TestUnaryMethodsCanBeCalledAsStreams(t *testing.T) {
	server := newServer(t, newServiceRig())
	for name, x := range map[string]exchange{
		"proto": {
			header: []string{"Content-Type", connectProto}, body: unhex(t, "00 00000004 0a02 6869"),
			frames: []frame{{0, "\x0a\x02hi"}, {2, `{"metadata":{"X-Trailer":["last"]}}`}},
		},
		"JSON": {
			header: []string{"Content-Type", connectJSON + "; charset=utf-8"}, body: Frame(nil, 0, []byte(`{"key":"hi"}`)),
			frames: []frame{{0, `{"value":"hi"}`}, {2, `{"metadata":{"X-Trailer":["last"]}}`}},
		},
		"compression is not asked for": {
			header: []string{"Content-Type", connectProto, "Accept-Encoding", "gzip", "Connect-Accept-Encoding", "gzip"},
			body:   Frame(nil, 0, []byte("\x0a\x7f"+strings.Repeat("x", 127))),
			frames: []frame{{0, "\x0a\x7f" + strings.Repeat("x", 127)}, {2, `{"metadata":{"X-Trailer":["last"]}}`}},
		},
	} {
		want := x.frames
		x.path = getSecret
		x.send(t, server)
		if x.end(t, 1); !slices.Equal(x.frames, want) {
			t.Errorf("%s: frames %q, want %q", name, x.frames, want)
		}
		contentType, _, _ := strings.Cut(x.header[1], ";")
		if got := x.answer; got.Get("Content-Type") != contentType || got.Get("X-Header") != "first" ||
			got.Get("Trailer-X-Trailer") != "" || got.Get("Connect-Accept-Encoding") != "gzip" || got.Get("Accept-Encoding") != "" {
			t.Errorf("%s: headers %q", name, got)
		}
	}
}

// TestStreamingClientsCallUnaryMethods compares what clients of connect-go get in either form.
func TestStreamingClientsCallUnaryMethods(t *testing.T) {
	server := newServer(t, newServiceRig())
	for _, options := range [][]connect.ClientOption{
		nil, {connect.WithProtoJSON()}, {connect.WithSendGzip()}, {connect.WithProtoJSON(), connect.WithSendGzip()},
	} {
		client := connect.NewClient[extensionserverpb.GetSecretValueRequest, extensionserverpb.GetSecretValueResponse](
			server.Client(), server.URL+getSecret, options...)
		for _, key := range []string{"", "key", strings.Repeat("k", 1<<16)} {
			request := func() *connect.Request[extensionserverpb.GetSecretValueRequest] {
				return connect.NewRequest(&extensionserverpb.GetSecretValueRequest{Key: key})
			}
			unary, err := client.CallUnary(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			stream, err := client.CallServerStream(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			if !stream.Receive() || stream.Msg().GetValue() != key || unary.Msg.GetValue() != key {
				t.Fatalf("got %q, %v", stream.Msg(), stream.Err())
			}
			if stream.Receive() || stream.Err() != nil {
				t.Errorf("a second message, or %v", stream.Err())
			}
			if stream.ResponseHeader().Get("X-Header") != unary.Header().Get("X-Header") ||
				!reflect.DeepEqual(stream.ResponseTrailer(), unary.Trailer()) {
				t.Errorf("headers %q, trailers %q, want %q", stream.ResponseHeader(), stream.ResponseTrailer(), unary.Trailer())
			}
			stream.Close()
		}

		_, want := client.CallUnary(t.Context(), connect.NewRequest(&extensionserverpb.GetSecretValueRequest{Key: "absent"}))
		stream, err := client.CallServerStream(t.Context(),
			connect.NewRequest(&extensionserverpb.GetSecretValueRequest{Key: "absent"}))
		if err != nil {
			t.Fatal(err)
		}
		if stream.Receive() {
			t.Errorf("got %v", stream.Msg())
		}
		compareErrors(t, stream.Err(), want)
		stream.Close()
	}
}

func compareErrors(t *testing.T, got, want error) {
	t.Helper()
	var a, b *connect.Error
	if !errors.As(got, &a) || !errors.As(want, &b) || b.Code() != connect.CodeNotFound || len(b.Details()) != 1 {
		t.Fatalf("got %v, want %v", got, want)
	}
	if a.Code() != b.Code() || a.Message() != b.Message() || a.Meta().Get("X-Reason") != "absent" {
		t.Errorf("got %v with %q, want %v", a, a.Meta(), b)
	}
	if len(a.Details()) != 1 || a.Details()[0].Type() != b.Details()[0].Type() ||
		string(a.Details()[0].Bytes()) != string(b.Details()[0].Bytes()) {
		t.Errorf("got details %v, want %v", a.Details(), b.Details())
	}
}

func TestAnswersThatAreNotConnectStayAsTheyAre(t *testing.T) {
	for _, answer := range []struct {
		status int
		body   string
	}{
		{http.StatusNotFound, "404 page not found\n"},
		{http.StatusForbidden, "Invalid CSRF token"},
		{http.StatusUnsupportedMediaType, ""},
		{http.StatusInternalServerError, `{"reason":"no code"}`},
		{http.StatusNoContent, ""},
	} {
		handler := EitherForm(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Trailer-X", "kept")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(answer.status)
			_, _ = io.WriteString(w, answer.body)
		}), streamsOfNone, testLimit)
		r := httptest.NewRequest(http.MethodPost, getSecret, strings.NewReader("\x00\x00\x00\x00\x00"))
		r.Header.Set("Content-Type", connectProto)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != answer.status || w.Body.String() != answer.body || w.Header().Get("Content-Type") != "text/plain" ||
			w.Header().Get("Trailer-X") != "kept" {
			t.Errorf("%d %q became %d %q %q", answer.status, answer.body, w.Code, w.Body, w.Header())
		}
	}
}

// TestEmptyAnswersAreEmptyMessages has a handler that writes nothing.
func TestEmptyAnswersAreEmptyMessages(t *testing.T) {
	server := newServer(t, EitherForm(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), streamsOfNone, testLimit))
	x := exchange{path: getSecret, header: []string{"Content-Type", connectProto}}
	x.send(t, server)
	if end := x.end(t, 1); end != "{}" || x.frames[0].message != "" {
		t.Errorf("got %q", x.frames)
	}
}

func TestSecondMessagesAreRefused(t *testing.T) {
	server := newServer(t, newServiceRig())
	body := unhex(t, "00 00000004 0a02 6869 00 00000004 0a02 6869")
	for path, code := range map[string]string{getSecret: "invalid_argument", subscribe: "unimplemented"} {
		x := exchange{path: path, header: []string{"Content-Type", connectProto}, body: body}
		x.send(t, server)
		if end := x.end(t, 0); !strings.Contains(end, code) {
			t.Errorf("%s: %s", path, end)
		}
	}
	// End frames and reserved flags are no messages.
	for _, flags := range []byte{2, 3, 4} {
		x := exchange{path: getSecret, header: []string{"Content-Type", connectProto}, body: Frame(nil, flags, []byte("{}"))}
		x.send(t, server)
		if end := x.end(t, 0); !strings.Contains(end, "invalid_argument") {
			t.Errorf("flags %d: %s", flags, end)
		}
	}
}
