package connectframe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	extensionserverpb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/testing/perigeetest/await"
)

const (
	connectProto = "application/connect+proto"
	connectJSON  = "application/connect+json"

	// subscribeOAuth is a request for the topic uss-oauth.
	subscribeOAuth = "0a09 7573732d6f61757468"
)

func TestStreamingMethodsAcceptEveryForm(t *testing.T) {
	server := newServer(t, newServiceRig())
	message := unhex(t, subscribeOAuth)
	enveloped := unhex(t, "00 0000000b"+subscribeOAuth)
	text := []byte(`{"topic":"uss-oauth"}`)
	for name, x := range map[string]exchange{
		"enveloped":                {body: enveloped},
		"enveloped, chunked":       {body: enveloped, chunked: true},
		"bare":                     {body: message},
		"bare, chunked":            {body: message, chunked: true},
		"bare, identity":           {body: message, header: []string{"Content-Encoding", "identity"}},
		"gzip, in the envelope":    {body: Frame(nil, 1, gzipped(message)), header: []string{"Connect-Content-Encoding", "gzip"}},
		"gzip, around a message":   {body: gzipped(message), header: []string{"Content-Encoding", "gzip"}},
		"gzip, chunked":            {body: gzipped(message), chunked: true, header: []string{"Content-Encoding", "GZIP"}},
		"gzip, around an envelope": {body: gzipped(enveloped), header: []string{"Content-Encoding", "gzip"}},
		"gzip, without envelope":   {body: gzipped(message), header: []string{"Connect-Content-Encoding", "gzip"}},
		"header without envelope":  {body: message, header: []string{"Connect-Content-Encoding", "gzip"}},
		"envelope, false encoding": {body: enveloped, header: []string{"Content-Encoding", "gzip"}},
		"JSON, enveloped":          {body: Frame(nil, 0, text), header: []string{"Content-Type", connectJSON}},
		"JSON, bare":               {body: text, header: []string{"Content-Type", connectJSON}},
		"JSON, bare, after spaces": {body: []byte("\n\t " + string(text)), chunked: true, header: []string{"Content-Type", connectJSON}},
		"JSON, with charset":       {body: text, header: []string{"Content-Type", connectJSON + "; charset=UTF-8"}},
		"upper case":               {body: message, header: []string{"Content-Type", "Application/Connect+Proto"}},
	} {
		t.Run(name, func(t *testing.T) {
			x.path = subscribe
			x.header = append([]string{"Content-Type", connectProto, "Connect-Accept-Encoding", "identity"}, x.header...)
			x.send(t, server)
			if end := x.end(t, 1); end != "{}" {
				t.Errorf("ends with %s", end)
			}
			if got := x.frames[0].message; !strings.Contains(got, "uss-oauth") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestEmptyBodiesAreEmptyMessages(t *testing.T) {
	server := newServer(t, newServiceRig())
	for _, path := range []string{subscribe, getSecret} {
		for _, header := range [][]string{nil, {"Content-Encoding", "gzip"}} {
			for _, contentType := range []string{connectProto, connectJSON} {
				x := exchange{path: path, header: append([]string{"Content-Type", contentType}, header...)}
				x.send(t, server)
				if end := x.end(t, 1); !strings.HasPrefix(end, "{") || strings.Contains(end, "error") {
					t.Errorf("%s %s: ends with %s", path, x.header, end)
				}
			}
		}
	}
}

// TestEmptyBodiesCanMeanNoMessage is the rule of the protocol, which the conformance suite checks.
func TestEmptyBodiesCanMeanNoMessage(t *testing.T) {
	server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		acceptBare(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if len(body) > 0 || err != nil {
				t.Errorf("body %q, %v", body, err)
			}
		}), testLimit, false).ServeHTTP(w, r)
	}))
	for _, body := range [][]byte{nil, gzipped(nil)} {
		x := exchange{path: subscribe, body: body, header: []string{"Content-Type", connectProto, "Content-Encoding", "gzip"}}
		x.send(t, server)
	}
}

func TestMalformedBodiesAreRefusedInTheFramingAskedFor(t *testing.T) {
	server := newServer(t, newServiceRig())
	for name, x := range map[string]exchange{
		"length too large":            {body: unhex(t, "00 0000000c"+subscribeOAuth)},
		"length too small":            {body: unhex(t, "00 0000000a"+subscribeOAuth)},
		"length too small by four":    {body: unhex(t, "00 00000007"+subscribeOAuth)},
		"no message":                  {body: unhex(t, "00 0000000b")},
		"cut off in the prefix":       {body: unhex(t, "00 0000")},
		"one byte":                    {body: unhex(t, "00")},
		"a second one, cut off":       {body: unhex(t, "00 00000000 00 00")},
		"not gzip":                    {body: unhex(t, subscribeOAuth), header: []string{"Content-Encoding", "gzip"}},
		"gzip, cut off":               {body: gzipped(unhex(t, subscribeOAuth))[:20], header: []string{"Content-Encoding", "gzip"}},
		"gzip, of a broken envelope":  {body: gzipped(unhex(t, "00 00000001")), header: []string{"Content-Encoding", "gzip"}},
		"no Protobuf":                 {body: []byte("hello")},
		"no JSON":                     {body: []byte(`{"topic"`), header: []string{"Content-Type", connectJSON}},
		"gzip without a header":       {body: gzipped(unhex(t, subscribeOAuth))},
		"gzip inside, not compressed": {body: unhex(t, "01 0000000b"+subscribeOAuth), header: []string{"Connect-Content-Encoding", "gzip"}},
	} {
		for _, path := range []string{subscribe, getSecret} {
			for _, x.chunked = range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					x.path = path
					x.header = append([]string{"Content-Type", connectProto}, x.header...)
					x.send(t, server)
					if end := x.end(t, 0); !strings.Contains(end, `{"error":{"code":"invalid_argument","message":"`) {
						t.Errorf("ends with %s", end)
					}
				})
			}
		}
	}
}

func TestUnknownEncodingsAreUnimplemented(t *testing.T) {
	server := newServer(t, newServiceRig())
	for _, path := range []string{subscribe, getSecret} {
		for name, x := range map[string]exchange{
			"around": {body: unhex(t, subscribeOAuth), header: []string{"Content-Encoding", "br"}},
			"inside": {body: unhex(t, "01 0000000b"+subscribeOAuth), header: []string{"Connect-Content-Encoding", "br"}},
		} {
			x.path, x.header = path, append(x.header, "Content-Type", connectProto)
			x.send(t, server)
			if end := x.end(t, 0); !strings.Contains(end, `"code":"unimplemented"`) {
				t.Errorf("%s: ends with %s", name, end)
			}
		}
	}
}

// TestLimit has messages of exactly the limit, and of one byte more. Requests are sent completely,
// however large they are.
func TestLimit(t *testing.T) {
	server := newServer(t, newServiceRig())
	sized := func(size int) []byte {
		message, err := proto.Marshal(&extensionserverpb.GetSecretValueRequest{Key: strings.Repeat("x", size-4)})
		if err != nil || len(message) != size {
			t.Fatalf("message has %d bytes, %v", len(message), err)
		}
		return message
	}
	for size, want := range map[int]string{testLimit: "", testLimit + 1: "resource_exhausted", 2 * testLimit: "resource_exhausted"} {
		message := sized(size)
		for name, x := range map[string]exchange{
			"bare":          {body: message},
			"bare, chunked": {body: message, chunked: true},
			"enveloped":     {body: Frame(nil, 0, message)},
			"gzip, around":  {body: gzipped(message), header: []string{"Content-Encoding", "gzip"}},
			"gzip, inside":  {body: Frame(nil, 1, gzipped(message)), header: []string{"Connect-Content-Encoding", "gzip"}},
		} {
			for _, path := range []string{subscribe, getSecret} {
				x.path, x.header = path, append(x.header, "Content-Type", connectProto)
				x.send(t, server)
				if want == "" {
					if end := x.end(t, 1); strings.Contains(end, "error") {
						t.Errorf("%s of %d bytes: %s", name, size, end)
					}
				} else if end := x.end(t, 0); !strings.Contains(end, `"code":"resource_exhausted"`) {
					t.Errorf("%s of %d bytes: %s", name, size, end)
				}
			}
		}
		x := exchange{path: getSecret, body: message, header: []string{"Content-Type", "application/proto"}}
		x.send(t, server)
		if got := string(x.raw); want == "" && x.status != http.StatusOK ||
			want != "" && (x.status != http.StatusTooManyRequests || !strings.Contains(got, want)) {
			t.Errorf("unary of %d bytes: status %d: %s", size, x.status, got)
		}
	}
	// An envelope that announces more than the limit is refused before its message has arrived.
	x := exchange{path: subscribe, body: unhex(t, "00 7fffffff 0a"), header: []string{"Content-Type", connectProto}}
	x.send(t, server)
	if end := x.end(t, 0); !strings.Contains(end, `"code":"resource_exhausted"`) {
		t.Errorf("ends with %s", end)
	}
}

// TestEnvelopesArePassedOnWhileTheyArrive reads each message before the next one is sent, and
// answers before the first.
func TestEnvelopesArePassedOnWhileTheyArrive(t *testing.T) {
	started := make(chan struct{})
	got := make(chan string)
	server := newServer(t, AcceptBare(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		for {
			data := make([]byte, 64)
			n, err := r.Body.Read(data)
			if n > 0 {
				got <- string(data[:n])
			}
			if err != nil {
				got <- err.Error()
				return
			}
		}
	}), testLimit))
	body, send := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", connectProto)
	go func() {
		defer close(started)
		w, err := server.Client().Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { w.Body.Close() })
	}()
	await.Receive(t, started, "the head") // the answer has begun, and nothing was sent yet
	for _, part := range []string{"\x00\x00\x00\x00\x02hi", "\x01\x00\x00", "\x00\x03", "ab", "c"} {
		if _, err := io.WriteString(send, part); err != nil {
			t.Fatal(err)
		}
		for part != "" {
			read := await.Receive(t, got, "a part")
			if !strings.HasPrefix(part, read) {
				t.Fatalf("read %q of %q", read, part)
			}
			part = part[len(read):]
		}
	}
	send.Close()
	if end := await.Receive(t, got, "the end"); end != "EOF" {
		t.Errorf("ends with %s", end)
	}
}

func TestOtherRequestsStayAsTheyAre(t *testing.T) {
	for _, header := range []string{
		"application/proto", "application/json", "application/grpc", "application/grpc+proto", "application/grpc-web+proto",
		"application/connect+thrift", "application/connect", "text/plain", "",
	} {
		r := httptest.NewRequest(http.MethodPost, getSecret, strings.NewReader("x"))
		r.Header.Set("Content-Type", header)
		checkUnchanged(t, r)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodOptions} {
		r := httptest.NewRequest(method, getSecret, strings.NewReader("x"))
		r.Header.Set("Content-Type", connectProto)
		checkUnchanged(t, r)
	}
}

func checkUnchanged(t *testing.T, want *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	called := false
	handler := http.HandlerFunc(func(got http.ResponseWriter, r *http.Request) {
		if called = true; got != http.ResponseWriter(w) || r != want {
			t.Errorf("%s %q was changed", want.Method, want.Header)
		}
	})
	AcceptBare(EitherForm(handler, streamsOfRig, testLimit), testLimit).ServeHTTP(w, want)
	if !called {
		t.Errorf("%s %q was not passed on", want.Method, want.Header)
	}
}

// TestEveryFormGivesTheSameMessage compares what methods read, for any message.
func TestEveryFormGivesTheSameMessage(t *testing.T) {
	var got []byte
	var failed error
	stream := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, failed = readMessage(r.Body, encodingName(r.Header, "Connect-Content-Encoding"), testLimit)
	})
	unary := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, failed = io.ReadAll(r.Body)
		if r.ContentLength != int64(len(got)) || r.Header.Get("Content-Encoding")+r.Header.Get("Connect-Content-Encoding") != "" {
			failed = fmt.Errorf("%d bytes with length %d and %q", len(got), r.ContentLength, r.Header)
		}
	})
	handlers := []http.Handler{
		AcceptBare(stream, testLimit),
		EitherForm(unary, streamsOfRig, testLimit),
		AcceptBare(EitherForm(unary, streamsOfRig, testLimit), testLimit),
	}
	rapid.Check(t, func(t *rapid.T) {
		codec := rapid.SampledFrom([]string{"proto", "json"}).Draw(t, "codec")
		message := anyMessage(t, codec)
		for name, form := range everyForm(message, codec) {
			for i, handler := range handlers {
				body := io.Reader(bytes.NewReader(form.body))
				if rapid.Bool().Draw(t, "one byte at a time") {
					body = iotest.OneByteReader(body)
				}
				r := httptest.NewRequest(http.MethodPost, getSecret, body)
				if r.ContentLength = -1; rapid.Bool().Draw(t, "length announced") {
					r.ContentLength = int64(len(form.body))
				}
				r.Header = form.header
				got, failed = nil, errors.New("not called")
				handler.ServeHTTP(httptest.NewRecorder(), r)
				if failed != nil || !bytes.Equal(got, message) {
					t.Fatalf("%s, handler %d: %q, %v, want %q", name, i, got, failed, message)
				}
			}
		}
	})
}

// anyMessage is empty, or begins like messages of the codec do.
func anyMessage(t *rapid.T, codec string) []byte {
	topic := &extensionserverpb.SubscribeToUnifiedStateSyncTopicRequest{Topic: rapid.String().Draw(t, "topic")}
	if codec == "json" {
		data, err := protojson.Marshal(topic)
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte(rapid.StringMatching(`[ \t\r\n]{0,3}`).Draw(t, "space")), data...)
	}
	number := rapid.Int32Range(1, 1<<29-1).Draw(t, "field")
	unknown := protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType)
	unknown = protowire.AppendBytes(unknown, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	data, err := proto.Marshal(topic)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(rapid.SampledFrom([][]byte{nil, unknown}).Draw(t, "unknown field"), data)
}

type form struct {
	header http.Header
	body   []byte
}

func everyForm(message []byte, codec string) map[string]form {
	with := func(name, value string) http.Header {
		return http.Header{"Content-Type": {streamType + codec}, name: {value}}
	}
	return map[string]form{
		"enveloped":              {with("X", "y"), Frame(nil, 0, message)},
		"compressed":             {with("Connect-Content-Encoding", "gzip"), Frame(nil, 1, gzipped(message))},
		"bare":                   {with("X", "y"), message},
		"bare, compressed":       {with("Content-Encoding", "gzip"), gzipped(message)},
		"bare, as in envelopes":  {with("Connect-Content-Encoding", "gzip"), gzipped(message)},
		"envelope in compressed": {with("Content-Encoding", "gzip"), gzipped(Frame(nil, 0, message))},
	}
}

// FuzzBody reads any body: the result is a sequence of envelopes, or ends in an error with a code.
// What is read and kept is limited.
func FuzzBody(f *testing.F) {
	message := unhex(f, subscribeOAuth)
	for _, form := range everyForm(message, "proto") {
		f.Add(form.body, form.header.Get("Content-Encoding"), form.header.Get("Connect-Content-Encoding"), true)
		f.Add(form.body[:len(form.body)-1], form.header.Get("Content-Encoding"), form.header.Get("Connect-Content-Encoding"), false)
	}
	f.Add(unhex(f, "00 00000002 0a00 00 0000000b 00 00 09"), "", "", false)
	f.Add(unhex(f, "00 ffffffff 0a"), "", "", false)
	f.Add(gzipped(make([]byte, 10*fuzzLimit)), "gzip", "", false)
	f.Add(Frame(nil, 1, gzipped(make([]byte, 10*fuzzLimit))), "", "gzip", false)
	f.Fuzz(func(t *testing.T, data []byte, encoding, messageEncoding string, announced bool) {
		newRequest := func() (*http.Request, *counter) {
			source := &counter{Reader: bytes.NewReader(data)}
			r := httptest.NewRequest(http.MethodPost, subscribe, source)
			r.Header = http.Header{
				"Content-Type": {connectProto}, "Content-Encoding": {encoding}, "Connect-Content-Encoding": {messageEncoding},
			}
			if r.ContentLength = -1; announced {
				r.ContentLength = int64(len(data))
			}
			return r, source
		}
		r, _ := newRequest()
		got, err := io.ReadAll(newBody(r, fuzzLimit, true))
		if coded := (*connect.Error)(nil); err != nil && !errors.As(err, &coded) {
			t.Fatalf("error without a code: %v", err)
		}
		if err == nil {
			for _, frame := range splitFrames(t, got) {
				if frame.flags >= bareFrom || len(frame.message) > fuzzLimit {
					t.Fatalf("a frame with flags %d and %d bytes", frame.flags, len(frame.message))
				}
			}
		}
		if len(data) > 0 && data[0] < bareFrom && !bytes.HasPrefix(data, got) {
			t.Fatalf("envelopes %q became %q", data, got)
		}
		r, source := newRequest()
		w := httptest.NewRecorder()
		EitherForm(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			message, err := io.ReadAll(r.Body)
			if err != nil || len(message) > fuzzLimit {
				t.Errorf("read %d bytes, %v", len(message), err)
			}
			_, _ = w.Write(message)
		}), streamsOfNone, fuzzLimit).ServeHTTP(w, r)
		if most := 2*fuzzLimit + 1024; source.read > most {
			t.Errorf("read %d bytes, more than %d", source.read, most)
		}
		frames := splitFrames(t, w.Body.Bytes())
		if last := len(frames) - 1; w.Code != http.StatusOK || last < 0 || last > 1 || frames[last].flags != flagEnd ||
			!json.Valid([]byte(frames[last].message)) {
			t.Fatalf("answered with %d and %q", w.Code, frames)
		}
	})
}

const fuzzLimit = 1 << 10

func streamsOfNone(string) bool { return false }

type counter struct {
	io.Reader
	read int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}
