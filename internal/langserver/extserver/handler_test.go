package extserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"perigee"
	common "perigee/gen/exa/codeium_common_pb"
	pb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/testing/perigeetest/await"
)

// TestOrderOfChecks has requests with several faults: the first in the order of checks decides.
func TestOrderOfChecks(t *testing.T) {
	r := newRig(t, extserver.Options{})
	type request struct {
		method, path, contentType, token, host, origin string
	}
	good := request{"POST", path + "Heartbeat", proto, r.CSRF().Reveal(), "", ""}
	with := func(changes ...func(*request)) request {
		changed := good
		for _, change := range changes {
			change(&changed)
		}
		return changed
	}
	noToken := func(q *request) { q.token = "" }
	wrongToken := func(q *request) { q.token = good.token + "x" }
	get := func(q *request) { q.method = "GET" }
	wrongPath := func(q *request) { q.path = "/exa.language_server_pb.LanguageServerService/Heartbeat" }
	grpc := func(q *request) { q.contentType = "application/grpc" }
	for name, test := range map[string]struct {
		request
		status int
	}{
		"good":                   {good, 200},
		"parameter of the type":  {with(func(q *request) { q.contentType = "Application/JSON; charset=utf-8" }), 400}, // no JSON
		"no token":               {with(noToken, get, wrongPath, grpc), 403},
		"wrong token":            {with(wrongToken, get, wrongPath, grpc), 403},
		"GET":                    {with(get, wrongPath, grpc), 405},
		"PUT":                    {with(func(q *request) { q.method = "PUT" }), 405},
		"another service":        {with(wrongPath, grpc), 404},
		"no method":              {with(func(q *request) { q.path = path }), 404},
		"a path below":           {with(func(q *request) { q.path = path + "Heartbeat/x" }), 404},
		"a long name":            {with(func(q *request) { q.path = path + strings.Repeat("A", 128) }), 200},
		"a longer name":          {with(func(q *request) { q.path = path + strings.Repeat("A", 129) }), 404},
		"root":                   {with(func(q *request) { q.path = "/" }), 404},
		"gRPC":                   {with(grpc), 415},
		"gRPC with codec":        {with(func(q *request) { q.contentType = "application/grpc+proto" }), 415},
		"gRPC-web":               {with(func(q *request) { q.contentType = "application/grpc-web+proto" }), 415},
		"no type":                {with(func(q *request) { q.contentType = "" }), 415},
		"text":                   {with(func(q *request) { q.contentType = "text/plain" }), 415},
		"gRPC of unknown method": {with(grpc, func(q *request) { q.path = path + "Later" }), 415},
		"another host":           {with(func(q *request) { q.host = "example.com" }), 403},
		"rebound host":           {with(func(q *request) { q.host = "127.0.0.1.example.com:80" }), 403},
		"localhost":              {with(func(q *request) { q.host = "localhost:1234" }), 200},
		"IPv6":                   {with(func(q *request) { q.host = "[::1]" }), 200},
		"web page":               {with(func(q *request) { q.origin = "http://localhost" }), 403},
		"null origin":            {with(func(q *request) { q.origin = "null" }), 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, r.url()+test.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Content-Type": test.contentType, "X-Codeium-Csrf-Token": test.token, "Origin": test.origin} {
			if value != "" {
				req.Header.Set(key, value)
			}
		}
		if test.host != "" {
			req.Host = test.host
		}
		res, err := r.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := readAll(t, res)
		_ = res.Body.Close()
		if res.StatusCode != test.status || res.ProtoMajor != 1 || res.ProtoMinor != 1 {
			t.Errorf("%s: got %s %d, %s", name, res.Proto, res.StatusCode, body)
		}
		if strings.HasSuffix(name, " token") && (string(body) != "Invalid CSRF token" || res.Header.Get("Content-Type") != "text/plain") {
			t.Errorf("%s: got %s, %q", name, res.Header.Get("Content-Type"), body)
		}
	}
	if got := r.Requests(); got["other"]["403"] != 2 || got["Heartbeat"]["403"] != 4 || got["Heartbeat"]["415"] != 5 ||
		got["Heartbeat"]["ok"] != 3 || got["Heartbeat"]["invalid_argument"] != 1 || got["other"]["415"] != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestEachServerHasItsOwnPortAndToken(t *testing.T) {
	a, b := newRig(t, extserver.Options{}), newRig(t, extserver.Options{})
	if a.Port() == b.Port() || a.CSRF().Equal(b.CSRF().Reveal()) || len(a.CSRF().Reveal()) < 20 {
		t.Errorf("ports %d and %d", a.Port(), b.Port())
	}
}

func TestUnknownMethods(t *testing.T) {
	r := newRig(t, extserver.Options{})
	for contentType, want := range map[string]string{proto: "", asJSON: "{}", streamP: "\x02\x00\x00\x00\x02{}", streamJ: "\x02\x00\x00\x00\x02{}"} {
		for range 2 {
			if status, body := r.post("LaterMethod", contentType, []byte("secret body")); status != 200 || string(body) != want {
				t.Errorf("%s: got %d, %q", contentType, status, body)
			}
		}
	}
	if got := r.Requests(); got["other"]["ok"] != 8 || len(got) != 1 {
		t.Errorf("counted %v", got)
	}
	if log := r.log.String(); strings.Count(log, "LaterMethod") != 1 || strings.Contains(log, "secret") || !strings.Contains(log, "length=11") ||
		!strings.Contains(log, "content_type=application/") {
		t.Errorf("the log has %s", log)
	}
	for i := range 300 {
		r.post(fmt.Sprintf("Later%d", i), proto, nil)
	}
	if lines := strings.Count(r.log.String(), "unknown method"); lines != 256 {
		t.Errorf("the log has %d lines", lines)
	}
}

// TestBodiesAreLimited sends bodies that are larger than 16 MiB, or become so when they are
// decompressed.
func TestBodiesAreLimited(t *testing.T) {
	r := newRig(t, extserver.Options{})
	large := bytes.Repeat([]byte{0}, 16<<20+100)
	small := compressed(t, large)
	for _, test := range []struct {
		name, method, contentType string
		body                      []byte
		header                    []string
	}{
		{"unary", "LogEvent", proto, large, nil},
		{"unary, compressed", "LogEvent", proto, small, []string{"Content-Encoding", "gzip"}},
		{"stream", "LogEvent", streamP, envelope(0, large), nil},
		{"stream, compressed", "LogEvent", streamP, envelope(1, small), []string{"Connect-Content-Encoding", "gzip"}},
		{"stream, bare", "LogEvent", streamP, append([]byte("\x12"), large...), nil},
		{"subscription", "SubscribeToUnifiedStateSyncTopic", streamP, envelope(0, large), nil},
		{"subscription, compressed", "SubscribeToUnifiedStateSyncTopic", streamP, envelope(1, small), []string{"Connect-Content-Encoding", "gzip"}},
		{"subscription, bare", "SubscribeToUnifiedStateSyncTopic", streamP, append([]byte("\x0a"), large...), nil},
		{"subscription, bare and compressed", "SubscribeToUnifiedStateSyncTopic", streamP, small, []string{"Content-Encoding", "gzip"}},
		{"unknown", "Later", proto, large, nil},
		{"unknown stream", "Later", streamP, large, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &serverRig{T: t, Server: r.Server, http: r.http}
			res := r.open(test.method, test.contentType, test.body, test.header...)
			body := readAll(t, res)
			var code string
			status := 429
			if strings.HasPrefix(test.contentType, "application/connect+") {
				_, code = frames(t, body)
				status = 200
			} else {
				code = errorCode(t, body, "")
			}
			if res.StatusCode != status || code != "resource_exhausted" {
				t.Errorf("got %d, %s", res.StatusCode, code)
			}
		})
	}
	if got := r.Requests(); got["LogEvent"]["resource_exhausted"] != 5 || got["other"]["resource_exhausted"] != 2 ||
		got["SubscribeToUnifiedStateSyncTopic"]["resource_exhausted"] != 4 {
		t.Errorf("counted %v", got)
	}
}

func TestBrokenEnvelopes(t *testing.T) {
	r := newRig(t, extserver.Options{})
	for _, method := range []string{"Heartbeat", "SubscribeToUnifiedStateSyncTopic"} {
		for name, body := range map[string]string{
			"short":    "\x00\x00\x00\x00\x05\x0a",
			"cut":      "\x00\x00",
			"trailing": "\x00\x00\x00\x00\x00\x00",
			"no proto": "\x00\x00\x00\x00\x01\xff",
		} {
			status, answer := r.post(method, streamP, []byte(body))
			if _, code := frames(t, answer); status != 200 || code != "invalid_argument" {
				t.Errorf("%s, %s: got %d, %s", method, name, status, answer)
			}
		}
	}
}

func TestSecrets(t *testing.T) {
	r := newRig(t, extserver.Options{})
	get := func(key string) (string, connect.Code) {
		res, err := r.client.GetSecretValue(t.Context(), connect.NewRequest(&pb.GetSecretValueRequest{Key: key}))
		if err != nil {
			return "", connect.CodeOf(err)
		}
		return res.Msg.GetValue(), 0
	}
	store := func(key, value string) connect.Code {
		_, err := r.client.StoreSecretValue(t.Context(), connect.NewRequest(&pb.StoreSecretValueRequest{Key: key, Value: value}))
		return codeOf(err)
	}
	for _, key := range []string{"oauth_token", "key"} {
		if _, code := get(key); code != connect.CodeNotFound {
			t.Errorf("%s: got %v", key, code)
		}
	}
	r.SetToken(token("ya29.canary"))
	if code := store("oauth_token", "mine"); code != 0 {
		t.Errorf("got %v", code)
	}
	if code := store("key", "value"); code != 0 {
		t.Errorf("got %v", code)
	}
	for key, want := range map[string]string{"oauth_token": "ya29.canary", "key": "value"} {
		if got, code := get(key); got != want || code != 0 {
			t.Errorf("%s: got %q, %v", key, got, code)
		}
	}
	r.SetToken(extserver.Token{})
	if got, code := get("oauth_token"); code != connect.CodeNotFound {
		t.Errorf("got %q, %v", got, code)
	}
	if code := store("large", strings.Repeat("x", 5<<20)); code != connect.CodeResourceExhausted {
		t.Errorf("got %v", code)
	}
	for i := range 1000 {
		if code := store(fmt.Sprint(i), ""); code != 0 && i != 999 || code != connect.CodeResourceExhausted && i == 999 {
			t.Fatalf("secret %d: got %v", i, code)
		}
	}
	if code := store("key", "another"); code != 0 {
		t.Errorf("a secret that is there already: got %v", code)
	}
}

// TestNoSecretIsLogged has every path that logs see the tokens.
func TestNoSecretIsLogged(t *testing.T) {
	const canary, longCanary = "zanzibar-canary", "ya29.A0AfH6canary0123456789"
	var ports []lsclient.Endpoint
	r := newRig(t, extserver.Options{Started: func(p lsclient.Endpoint) { ports = append(ports, p) }})
	r.SetToken(token(longCanary))
	call := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	_, err := r.client.StoreSecretValue(t.Context(), connect.NewRequest(&pb.StoreSecretValueRequest{Key: "k", Value: canary}))
	call(err)
	_, err = r.client.GetSecretValue(t.Context(), connect.NewRequest(&pb.GetSecretValueRequest{Key: "oauth_token"}))
	call(err)
	_, err = r.client.LanguageServerStarted(t.Context(), connect.NewRequest(&pb.LanguageServerStartedRequest{CsrfToken: canary}))
	call(err)
	_, err = r.client.RecordError(t.Context(), connect.NewRequest(&pb.RecordErrorRequest{ErrorTrace: &common.ErrorTrace{
		ErrorId: longCanary, Stacktrace: "panic: " + longCanary + " and " + r.CSRF().Reveal() + "\n" + strings.Repeat("x", 100<<10),
		FullStderr: canary,
	}}))
	call(err)
	_, err = r.client.LogEvent(t.Context(), connect.NewRequest(&pb.LogEventRequest{EventString: canary}))
	call(err)
	r.post("Later", proto, []byte(canary), "Authorization", "Bearer "+canary)
	r.next(r.subscribe(oauthTopic))
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
	log := r.log.String() + fmt.Sprintf("%v %+v %#v", ports, ports, ports) + fmt.Sprintf("%v %+v", r.CSRF(), token(longCanary))
	for _, secret := range []string{canary, longCanary, "canary", r.CSRF().Reveal()} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s: %s", secret, log)
		}
	}
	if !strings.Contains(log, "language server reported an error") || len(ports) != 1 || len(log) > 8<<10 {
		t.Errorf("%d ports; the log has %s", len(ports), log)
	}
}

func TestPortsOfTheLanguageServer(t *testing.T) {
	got := make(chan lsclient.Endpoint, 1)
	r := newRig(t, extserver.Options{Started: func(p lsclient.Endpoint) { got <- p }})
	_, err := r.client.LanguageServerStarted(t.Context(), connect.NewRequest(&pb.LanguageServerStartedRequest{
		HttpPort: 1, HttpsPort: 2, LspPort: 3, CsrfToken: "t"}))
	if p := await.Receive(t, got, "the ports"); err != nil || p != (lsclient.Endpoint{HTTP: 1, HTTPS: 2, CSRF: perigee.NewSecret("t")}) {
		t.Errorf("got %+v, %v", p, err)
	}
	_, err = r.client.LanguageServerStarted(t.Context(), connect.NewRequest(&pb.LanguageServerStartedRequest{HttpPort: 70000}))
	if codeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
	}
}

func TestListTerminals(t *testing.T) {
	r := newRig(t, extserver.Options{})
	for kind, want := range map[string]string{"listTerminals": `{"terminals":[]}`, "handleReload": ""} {
		res, err := r.client.HandleAsyncPostMessage(t.Context(), connect.NewRequest(&pb.HandleAsyncPostMessageRequest{MessageType: kind}))
		if err != nil || res.Msg.GetResponseContent() != want {
			t.Errorf("%s: got %v, %v", kind, res, err)
		}
	}
}

func TestStartFailsWithoutItsWorkspace(t *testing.T) {
	s := extserver.New(extserver.Options{Workspace: t.TempDir() + "/absent", AllowEdit: true})
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "workspace") {
		t.Errorf("got %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClosedServerRefusesConnections(t *testing.T) {
	r := newRig(t, extserver.Options{})
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := r.client.Heartbeat(t.Context(), connect.NewRequest(&pb.HeartbeatRequest{}))
	if codeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	if errors.Is(err, io.EOF) {
		t.Error("the connection was accepted")
	}
}

// TestARefusedRequestDoesNotHoldItsConnection announces a body that never comes, without a token.
func TestARefusedRequestDoesNotHoldItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, extserver.Options{})
		conn, began := r.dial(), time.Now()
		if _, err := io.WriteString(conn, "POST "+path+"Heartbeat HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+asJSON+"\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn) // until the server closes it
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 403 ") {
			t.Errorf("got %q, %v", answer, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
