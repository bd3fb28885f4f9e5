package connectframe

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	extensionserverpb "perigee/gen/exa/extension_server_pb"
	"perigee/gen/exa/extension_server_pb/extensionserverpbconnect"
	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	subscribe = extensionserverpbconnect.ExtensionServerServiceSubscribeToUnifiedStateSyncTopicProcedure
	getSecret = extensionserverpbconnect.ExtensionServerServiceGetSecretValueProcedure

	testLimit = 1 << 20
)

// serviceRig has one streaming and one unary method, which answer with the string of their request.
type serviceRig struct {
	extensionserverpbconnect.UnimplementedExtensionServerServiceHandler
}

func (serviceRig) SubscribeToUnifiedStateSyncTopic(_ context.Context,
	r *connect.Request[extensionserverpb.SubscribeToUnifiedStateSyncTopicRequest],
	stream *connect.ServerStream[extensionserverpb.UnifiedStateSyncUpdate],
) error {
	return stream.Send(&extensionserverpb.UnifiedStateSyncUpdate{
		UpdateType: &extensionserverpb.UnifiedStateSyncUpdate_AppliedUpdate{
			AppliedUpdate: &unifiedstatesyncpb.AppliedUpdate{Key: r.Msg.GetTopic()},
		},
	})
}

func (serviceRig) GetSecretValue(_ context.Context, r *connect.Request[extensionserverpb.GetSecretValueRequest],
) (*connect.Response[extensionserverpb.GetSecretValueResponse], error) {
	if r.Msg.GetKey() == "absent" {
		err := connect.NewError(connect.CodeNotFound, errors.New("no <secret> has this key"))
		err.Meta().Set("X-Reason", "absent")
		detail, detailErr := connect.NewErrorDetail(r.Msg)
		if detailErr != nil {
			return nil, detailErr
		}
		err.AddDetail(detail)
		return nil, err
	}
	answer := connect.NewResponse(&extensionserverpb.GetSecretValueResponse{Value: r.Msg.GetKey()})
	answer.Header().Set("X-Header", "first")
	answer.Trailer().Set("X-Trailer", "last")
	return answer, nil
}

func streamsOfRig(path string) bool { return path == subscribe }

// newServiceRig has both kinds of middleware in front of the methods.
func newServiceRig() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(extensionserverpbconnect.NewExtensionServerServiceHandler(serviceRig{}, connect.WithReadMaxBytes(testLimit)))
	return AcceptBare(EitherForm(mux, streamsOfRig, testLimit), testLimit)
}

// An exchange is a request, and what came back.
type exchange struct {
	path    string
	header  []string // name, value, name, value
	body    []byte
	chunked bool // the length of the body is not announced

	status int
	answer http.Header
	frames []frame // if the answer is a stream
	raw    []byte
}

type frame struct {
	flags   byte
	message string
}

// send makes the exchange with a server.
func (x *exchange) send(t testing.TB, server *httptest.Server) {
	t.Helper()
	var body io.Reader = bytes.NewReader(x.body)
	if x.chunked {
		body = io.MultiReader(body) // its length is unknown to net/http
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+x.path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(x.header); i += 2 {
		r.Header.Set(x.header[i], x.header[i+1])
	}
	w, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	x.status, x.answer = w.StatusCode, w.Header
	if x.raw, err = io.ReadAll(w.Body); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(w.Header.Get("Content-Type"), "application/connect+") {
		x.frames = splitFrames(t, x.raw)
	}
	for i, frame := range x.frames {
		if frame.flags&1 != 0 && w.Header.Get("Connect-Content-Encoding") == "gzip" {
			x.frames[i].flags, x.frames[i].message = frame.flags&^1, string(gunzipped(t, []byte(frame.message)))
		}
	}
}

// end is the message of the end frame, before which there are n frames.
func (x *exchange) end(t testing.TB, n int) string {
	t.Helper()
	if x.status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", x.path, x.status, x.raw)
	}
	if len(x.frames) != n+1 || x.frames[n].flags != 2 {
		t.Fatalf("%s: frames %q, want %d and an end", x.path, x.frames, n)
	}
	for _, frame := range x.frames[:n] {
		if frame.flags != 0 {
			t.Errorf("%s: frames %q", x.path, x.frames)
		}
	}
	return x.frames[n].message
}

func splitFrames(t testing.TB, data []byte) (frames []frame) {
	t.Helper()
	for rest := data; len(rest) > 0; {
		if len(rest) < 5 || uint64(len(rest)) < 5+uint64(binary.BigEndian.Uint32(rest[1:])) {
			t.Fatalf("no frames: %q", data)
		}
		size := 5 + binary.BigEndian.Uint32(rest[1:])
		frames = append(frames, frame{rest[0], string(rest[5:size])})
		rest = rest[size:]
	}
	return frames
}

func newServer(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func gunzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return data
}
