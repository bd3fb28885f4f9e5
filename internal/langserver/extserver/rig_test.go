package extserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"perigee/gen/exa/extension_server_pb/extensionserverpbconnect"
	"perigee/internal/langserver/extserver"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	path    = "/exa.extension_server_pb.ExtensionServerService/"
	proto   = "application/proto"
	asJSON  = "application/json"
	streamP = "application/connect+proto"
	streamJ = "application/connect+json"
)

// A serverRig is a running server, its log, and clients of it.
type serverRig struct {
	*testing.T
	*extserver.Server
	log    *logBuffer
	pipes  *perigeetest.Pipes // nil means TCP
	http   *http.Client
	client extensionserverpbconnect.ExtensionServerServiceClient
}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newRig(t *testing.T, opts extserver.Options) *serverRig {
	t.Helper()
	return newRigOver(t, nil, opts)
}

// newPipeRig is a rig whose connections are pipes, which keep no bytes: it can live in the time of
// a bubble.
func newPipeRig(t *testing.T, opts extserver.Options) *serverRig {
	t.Helper()
	return newRigOver(t, perigeetest.NewPipes(), opts)
}

func newRigOver(t *testing.T, pipes *perigeetest.Pipes, opts extserver.Options) *serverRig {
	t.Helper()
	r := &serverRig{T: t, log: &logBuffer{}, pipes: pipes}
	opts.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.Server = extserver.New(opts)
	start := func() error { return r.Start(t.Context()) }
	if pipes != nil {
		start = func() error { return r.StartOn(pipes) }
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, DialContext: r.dialTo}
	r.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r.client = extensionserverpbconnect.NewExtensionServerServiceClient(r.http, r.url(), connect.WithInterceptors(withToken{r.Server}))
	return r
}

func (r *serverRig) url() string { return fmt.Sprintf("http://127.0.0.1:%d", r.Port()) }

// dialTo opens a connection. Its shape is that of http.Transport.DialContext.
func (r *serverRig) dialTo(ctx context.Context, network, address string) (net.Conn, error) {
	if r.pipes != nil {
		return r.pipes.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// dial opens a connection to the server.
func (r *serverRig) dial() net.Conn {
	r.Helper()
	conn, err := r.dialTo(r.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", r.Port()))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(await.Limit))
	return conn
}

// withToken adds the CSRF token to calls of the generated client.
type withToken struct{ server *extserver.Server }

func (w withToken) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		req.Header().Set("X-Codeium-Csrf-Token", w.server.CSRF().Reveal())
		return next(ctx, req)
	}
}

func (w withToken) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set("X-Codeium-Csrf-Token", w.server.CSRF().Reveal())
		return conn
	}
}

func (w withToken) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// open sends a request and returns the answer, whose body the caller reads. Header fields come in
// pairs.
func (r *serverRig) open(method, contentType string, body []byte, header ...string) *http.Response {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.url()+path+method, bytes.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("x-codeium-csrf-token", r.CSRF().Reveal())
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.http.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// post returns the status and the whole body of the answer.
func (r *serverRig) post(method, contentType string, body []byte, header ...string) (int, []byte) {
	r.Helper()
	res := r.open(method, contentType, body, header...)
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	if want := contentType; res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") != want {
		r.Errorf("%s answers %s with %s", method, want, res.Header.Get("Content-Type"))
	}
	return res.StatusCode, answer
}

// A frame is an envelope of a stream.
type frame struct {
	flags   byte
	message []byte
}

func readFrame(t testing.TB, body io.Reader) frame {
	t.Helper()
	var prefix [5]byte
	if _, err := io.ReadFull(body, prefix[:]); err != nil {
		t.Fatalf("no frame: %v", err)
	}
	message := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
	if _, err := io.ReadFull(body, message); err != nil {
		t.Fatalf("half a frame: %v", err)
	}
	return frame{prefix[0], message}
}

// frames splits a complete stream and returns its messages, and the code of its end frame.
func frames(t testing.TB, body []byte) (messages [][]byte, code string) {
	t.Helper()
	reader := bytes.NewReader(body)
	for {
		f := readFrame(t, reader)
		if f.flags == 0 {
			messages = append(messages, f.message)
			continue
		}
		if f.flags != 2 || reader.Len() > 0 {
			t.Fatalf("flags %d, then %d bytes", f.flags, reader.Len())
		}
		return messages, errorCode(t, f.message, "error")
	}
}

// errorCode is the code of an error; "ok": there is none.
func errorCode(t testing.TB, text []byte, member string) string {
	t.Helper()
	var end map[string]json.RawMessage
	if err := json.Unmarshal(text, &end); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if member != "" {
		if end[member] == nil {
			return "ok"
		}
		return errorCode(t, end[member], "")
	}
	var code string
	if err := json.Unmarshal(end["code"], &code); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return code
}

func envelope(flags byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message))), message...)
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readAll(t testing.TB, res *http.Response) []byte {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
