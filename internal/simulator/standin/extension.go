package standin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	extensionserverpb "perigee/gen/exa/extension_server_pb"
	"perigee/gen/exa/extension_server_pb/extensionserverpbconnect"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
)

const csrfHeader = "X-Codeium-Csrf-Token"

// extension is the client of the Extension Server.
type extension struct {
	p           *process
	client      *http.Client
	stream      bool
	reconnected chan struct{} // has a value when the address changed

	mu   sync.Mutex
	base string
	csrf string
}

func newExtension(p *process) *extension {
	var transport http.RoundTripper = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4}
	if p.bare {
		transport = bareRequests{transport}
	}
	e := &extension{p: p, client: &http.Client{Transport: transport}, stream: p.stream, reconnected: make(chan struct{}, 1)}
	e.setAddress(p.extensionPort, p.extensionCSRF)
	return e
}

func (e *extension) setAddress(port int, csrf string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.base, e.csrf = fmt.Sprintf("http://127.0.0.1:%d", port), csrf
}

func (e *extension) address() (base, csrf string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.base, e.csrf
}

// reconnect changes the address. Streams of the old one are closed.
func (e *extension) reconnect(port int, csrf string) {
	e.setAddress(port, csrf)
	select {
	case e.reconnected <- struct{}{}:
	default:
	}
}

// openStream calls a method as a server stream.
func openStream[Res proto.Message](ctx context.Context, e *extension, procedure string, request proto.Message) (*connect.ServerStreamForClient[anyMessage], error) {
	client, sent := prepare[Res](e, procedure, request)
	return client.CallServerStream(ctx, sent)
}

// prepare returns a client for one call of a method with answers of a type, and the request.
func prepare[Res proto.Message](e *extension, procedure string, request proto.Message) (*connect.Client[anyMessage, anyMessage], *connect.Request[anyMessage]) {
	base, csrf := e.address()
	sent := connect.NewRequest(&anyMessage{request})
	sent.Header().Set(csrfHeader, csrf)
	return connect.NewClient[anyMessage, anyMessage](e.client, base+procedure, connect.WithResponseInitializer(fill[Res]())), sent
}

// call calls a unary method, as one or as a stream of one message, and logs a failure. The answer
// is never nil.
func call[Res proto.Message](ctx context.Context, e *extension, procedure string, request proto.Message) (answer Res, err error) {
	answer = answer.ProtoReflect().New().Interface().(Res)
	defer func() {
		if err != nil && ctx.Err() == nil {
			e.p.log.error("%s failed: %v", procedure[strings.LastIndexByte(procedure, '/')+1:], err)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if !e.stream {
		client, sent := prepare[Res](e, procedure, request)
		response, err := client.CallUnary(limited, sent)
		if err != nil {
			return answer, err
		}
		return response.Msg.Message.(Res), nil
	}
	stream, err := openStream[Res](limited, e, procedure, request)
	if err != nil {
		return answer, err
	}
	defer stream.Close()
	if stream.Receive() {
		answer = stream.Msg().Message.(Res)
		if stream.Receive() {
			return answer, fmt.Errorf("a second message came in answer to %s", procedure)
		}
	}
	return answer, stream.Err()
}

// run calls the Extension Server until the end of the process, and starts again when its address
// changes.
func (e *extension) run(ctx context.Context, l ports) {
	for ctx.Err() == nil {
		session, cancel := context.WithCancel(ctx)
		go e.register(session, l)
		select {
		case <-e.reconnected:
			e.p.log.info("reconnecting to the extension server")
		case <-ctx.Done():
		}
		cancel()
	}
}

// subscribed are the topics that are followed.
var subscribed = []string{oauthTopic, enterpriseTopic, "uss-userStatus", "uss-modelPreferences", "uss-modelCredits", "uss-agentPreferences",
	"uss-browserPreferences", "uss-overrideStore", "uss-windowPreferences", "uss-theme", "uss-editorPreferences", "uss-tabPreferences", "customModels"}

const (
	oauthTopic      = "uss-oauth"
	enterpriseTopic = "uss-enterprisePreferences"
	oauthKey        = "oauthTokenInfoSentinelKey"
	summariesTopic  = "trajectorySummaries"
)

// register makes the calls of a start, in their order. Failures are logged and do not stop it.
func (e *extension) register(ctx context.Context, l ports) {
	started := &extensionserverpb.LanguageServerStartedRequest{HttpsPort: int32(portOf(l.https)), LspPort: int32(portOf(l.lsp)), HttpPort: int32(portOf(l.http))}
	if e.p.generation != classic {
		started.CsrfToken = e.p.csrf
	}
	if e.p.faults.due("wrong-port") {
		started.HttpsPort, started.HttpPort = 1, 1
	}
	_, _ = call[*extensionserverpb.LanguageServerStartedResponse](ctx, e,
		extensionserverpbconnect.ExtensionServerServiceLanguageServerStartedProcedure, started)
	_, _ = call[*extensionserverpb.LaunchBrowserResponse](ctx, e,
		extensionserverpbconnect.ExtensionServerServiceLaunchBrowserProcedure, &extensionserverpb.LaunchBrowserRequest{})
	e.findBrowser(ctx)
	for _, topic := range subscribed {
		go e.subscribe(ctx, topic)
	}
	e.p.conversations.pushStored(ctx)
	for sleep(ctx, 2*time.Second) {
		if e.findBrowser(ctx) {
			return
		}
	}
}

// findBrowser asks for the address of the browser, which an IDE with one has after some time.
func (e *extension) findBrowser(ctx context.Context) bool {
	answer, err := call[*extensionserverpb.GetChromeDevtoolsMcpUrlResponse](ctx, e,
		extensionserverpbconnect.ExtensionServerServiceGetChromeDevtoolsMcpUrlProcedure, &extensionserverpb.GetChromeDevtoolsMcpUrlRequest{})
	return err == nil && answer.Url != ""
}

// reconnectPause is the time before a stream that ended is opened again.
const reconnectPause = 200 * time.Millisecond

// subscribe follows a topic until the session ends.
func (e *extension) subscribe(ctx context.Context, topic string) {
	for {
		attempt, cancel, pause := ctx, func() {}, reconnectPause
		if d := e.p.faults.duration("reconnect-storm"); d > 0 {
			attempt, cancel = context.WithTimeout(ctx, d)
			pause = time.Microsecond
		}
		err := e.follow(attempt, topic)
		stormed := attempt.Err() != nil
		cancel()
		if ctx.Err() == nil && !stormed {
			e.p.log.error("unified state sync: topic %s: %v; reconnecting", topic, err)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// follow reads one stream of a topic. It returns the reason of its end.
func (e *extension) follow(ctx context.Context, topic string) error {
	stream, err := openStream[*extensionserverpb.UnifiedStateSyncUpdate](ctx, e,
		extensionserverpbconnect.ExtensionServerServiceSubscribeToUnifiedStateSyncTopicProcedure,
		&extensionserverpb.SubscribeToUnifiedStateSyncTopicRequest{Topic: topic})
	if err != nil {
		return err
	}
	defer stream.Close()
	var rows map[string]*unifiedstatesyncpb.Row
	for stream.Receive() {
		update := stream.Msg().Message.(*extensionserverpb.UnifiedStateSyncUpdate)
		switch {
		case rows == nil:
			initial, ok := update.UpdateType.(*extensionserverpb.UnifiedStateSyncUpdate_InitialState)
			if !ok {
				return fmt.Errorf("expected initial state as first message, got %T", update.UpdateType)
			}
			rows = map[string]*unifiedstatesyncpb.Row{}
			for key, row := range initial.InitialState.GetData() {
				rows[key] = row
			}
		case update.GetAppliedUpdate() == nil:
			return fmt.Errorf("expected applied update, got %T", update.UpdateType)
		case update.GetAppliedUpdate().Key == "":
			continue // keeps the connection alive
		case update.GetAppliedUpdate().Deleted:
			delete(rows, update.GetAppliedUpdate().Key)
		default:
			rows[update.GetAppliedUpdate().Key] = update.GetAppliedUpdate().NewRow
		}
		for key, row := range rows {
			if _, err := rowMessage(row); err != nil {
				e.p.log.error("unified state sync: topic %s: key %s: %v", topic, key, err)
			}
		}
		e.p.tokens.see(topic, rows)
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return fmt.Errorf("stream ended: %w", io.EOF)
}

// rowMessage decodes the value of a row: base64 of a message.
func rowMessage(row *unifiedstatesyncpb.Row) ([]byte, error) {
	message, err := base64.StdEncoding.DecodeString(row.GetValue())
	if err != nil {
		return nil, fmt.Errorf("failed to decode row: %w", err)
	}
	for rest := message; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, fmt.Errorf("failed to unmarshal row: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
	}
	return message, nil
}

// pushSummary sends the state of a conversation to the IDE, in the form of its generation.
func (e *extension) pushSummary(ctx context.Context, cascade string, summary *jetskicortexpb.CascadeTrajectorySummary) {
	if n := e.p.faults.size("big-push"); n > 0 {
		summary = proto.CloneOf(summary)
		summary.Summary += strings.Repeat("x", n<<20)
	}
	message, err := proto.Marshal(summary)
	if err != nil {
		e.p.log.error("failed to marshal a summary: %v", err)
		return
	}
	row := &unifiedstatesyncpb.Row{Value: base64.StdEncoding.EncodeToString(message)}
	update := &unifiedstatesyncpb.UpdateRequest{TopicName: summariesTopic, Key: cascade, Row: row}
	if e.p.generation != classic {
		update = &unifiedstatesyncpb.UpdateRequest{TopicName: summariesTopic, AppliedUpdate: &unifiedstatesyncpb.AppliedUpdate{Key: cascade, NewRow: row}}
	}
	_, _ = call[*extensionserverpb.PushUnifiedStateSyncUpdateResponse](ctx, e,
		extensionserverpbconnect.ExtensionServerServicePushUnifiedStateSyncUpdateProcedure,
		&extensionserverpb.PushUnifiedStateSyncUpdateRequest{Update: update})
}

// secretValue returns a secret of the IDE.
func (e *extension) secretValue(ctx context.Context, key string) (string, error) {
	answer, err := call[*extensionserverpb.GetSecretValueResponse](ctx, e,
		extensionserverpbconnect.ExtensionServerServiceGetSecretValueProcedure, &extensionserverpb.GetSecretValueRequest{Key: key})
	return answer.Value, err
}

// bareRequests sends the message of a streaming request without its envelope, as some believe that
// it is sent.
type bareRequests struct{ http.RoundTripper }

func (b bareRequests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || !strings.HasPrefix(request.Header.Get("Content-Type"), "application/connect+") {
		return b.RoundTripper.RoundTrip(request)
	}
	body, err := io.ReadAll(request.Body)
	_ = request.Body.Close()
	if err != nil {
		return nil, err
	}
	const prefix = 5
	if len(body) < prefix || int(binary.BigEndian.Uint32(body[1:prefix])) != len(body)-prefix {
		return nil, fmt.Errorf("a request of %d bytes is not one envelope", len(body))
	}
	body = body[prefix:]
	request = request.Clone(request.Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return b.RoundTripper.RoundTrip(request)
}

// readToken reads the row of the topic with the token.
func readToken(rows map[string]*unifiedstatesyncpb.Row) (token, error) {
	row, ok := rows[oauthKey]
	if !ok {
		return token{}, fmt.Errorf("key not found: %s", oauthKey)
	}
	message, err := rowMessage(row)
	if err != nil {
		return token{}, err
	}
	var info languageserverpb.OAuthTokenInfo
	if err := proto.Unmarshal(message, &info); err != nil {
		return token{}, fmt.Errorf("failed to unmarshal OAuthTokenInfo: %w", err)
	}
	if info.AccessToken == "" {
		return token{}, fmt.Errorf("OAuthTokenInfo has no access token")
	}
	t := token{access: info.AccessToken}
	if info.Expiry != nil {
		t.expiry = info.Expiry.AsTime()
	}
	return t, nil
}
