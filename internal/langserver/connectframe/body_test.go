package connectframe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
)

// TestWhatHandlersRead has no connect-go behind the middleware, which would find most errors, too.
func TestWhatHandlersRead(t *testing.T) {
	for name, test := range map[string]struct {
		body     string
		chunked  bool
		encoding string
		want     string
		code     connect.Code // 0 means none
	}{
		"lowest first byte of a message":  {body: "\x08\x01", want: "\x00\x00\x00\x00\x02\x08\x01"},
		"highest first byte of envelopes": {body: "\x07\x00\x00\x00\x01x", want: "\x07\x00\x00\x00\x01x"},
		"two envelopes":                   {body: "\x00\x00\x00\x00\x01x\x01\x00\x00\x00\x01y", want: "\x00\x00\x00\x00\x01x\x01\x00\x00\x00\x01y"},
		"rest of a message":               {body: "\x00\x00\x00\x00\x01x\x08", want: "\x00\x00\x00\x00\x01x", code: connect.CodeInvalidArgument},
		"envelope at the limit":           {body: "\x00\x00\x00\x00\x081234567\n", want: "\x00\x00\x00\x00\x081234567\n"},
		"envelope beyond the limit":       {body: "\x00\x00\x00\x00\x0912345678\n", want: "\x00\x00\x00\x00\x09", code: connect.CodeResourceExhausted},
		"message at the limit":            {body: "12345678", want: "\x00\x00\x00\x00\x0812345678"},
		"message beyond the limit":        {body: "123456789", code: connect.CodeResourceExhausted},
		"at the limit, chunked":           {body: "12345678", chunked: true, want: "\x00\x00\x00\x00\x0812345678"},
		"beyond the limit, chunked":       {body: "123456789", chunked: true, code: connect.CodeResourceExhausted},
		"compressed, beyond the limit":    {body: string(gzipped([]byte("1"))), encoding: "gzip", code: connect.CodeResourceExhausted},
	} {
		r := httptest.NewRequest(http.MethodPost, subscribe, strings.NewReader(test.body))
		if r.Header.Set("Content-Type", connectProto); test.chunked {
			r.ContentLength = -1
		}
		if test.encoding != "" {
			r.Header.Set("Content-Encoding", test.encoding)
		}
		length := r.ContentLength
		AcceptBare(http.HandlerFunc(func(_ http.ResponseWriter, inner *http.Request) {
			got, err := io.ReadAll(inner.Body)
			if string(got) != test.want || (err == nil) != (test.code == 0) || err != nil && connect.CodeOf(err) != test.code {
				t.Errorf("%s: read %q, %v", name, got, err)
			}
			if inner.ContentLength != -1 || inner.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s: length %d, headers %q", name, inner.ContentLength, inner.Header)
			}
		}), 8).ServeHTTP(httptest.NewRecorder(), r)
		if r.ContentLength != length || r.Header.Get("Content-Encoding") != test.encoding {
			t.Errorf("%s: the request was changed: %d, %q", name, r.ContentLength, r.Header)
		}
	}
}

// TestAnnouncedLengthsOfAnswersAreThoseOfTheFrames has a handler that sets Content-Length.
func TestAnnouncedLengthsOfAnswersAreThoseOfTheFrames(t *testing.T) {
	server := newServer(t, EitherForm(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len("hello")))
		_, _ = io.WriteString(w, "hello")
	}), streamsOfNone, testLimit))
	x := exchange{path: getSecret, header: []string{"Content-Type", connectProto}}
	x.send(t, server)
	if end := x.end(t, 1); end != "{}" || x.frames[0].message != "hello" {
		t.Errorf("got %q", x.frames)
	}
}
