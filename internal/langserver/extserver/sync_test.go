package extserver_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	gproto "google.golang.org/protobuf/proto"

	"perigee"
	common "perigee/gen/exa/codeium_common_pb"
	pb "perigee/gen/exa/extension_server_pb"
	lspb "perigee/gen/exa/language_server_pb"
	uss "perigee/gen/exa/unified_state_sync_pb"
	"perigee/internal/langserver/extserver"
	"perigee/internal/testing/perigeetest/await"
)

const (
	oauthTopic = "uss-oauth"
	oauthKey   = "oauthTokenInfoSentinelKey"
)

var expiry = time.Unix(4102444800, 0)

func token(access string) extserver.Token {
	return extserver.Token{Access: perigee.NewSecret(access), Expiry: expiry}
}

func subscribeMessage(topic string) []byte {
	b, _ := gproto.Marshal(&pb.SubscribeToUnifiedStateSyncTopicRequest{Topic: topic})
	return b
}

// subscribe opens a subscription with the generated client.
func (r *serverRig) subscribe(topic string) *connect.ServerStreamForClient[pb.UnifiedStateSyncUpdate] {
	r.Helper()
	stream, err := r.client.SubscribeToUnifiedStateSyncTopic(r.Context(),
		connect.NewRequest(&pb.SubscribeToUnifiedStateSyncTopicRequest{Topic: topic}))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = stream.Close() })
	return stream
}

// next is the next update of a stream, without keep-alives.
func (r *serverRig) next(stream *connect.ServerStreamForClient[pb.UnifiedStateSyncUpdate]) *pb.UnifiedStateSyncUpdate {
	r.Helper()
	for stream.Receive() {
		m := stream.Msg()
		if applied := m.GetAppliedUpdate(); applied == nil || applied.GetKey() != "" {
			return gproto.Clone(m).(*pb.UnifiedStateSyncUpdate)
		}
	}
	r.Fatalf("the stream has ended: %v", stream.Err())
	return nil
}

func tokenOf(t *testing.T, value string) *lspb.OAuthTokenInfo {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	info := &lspb.OAuthTokenInfo{}
	if err := gproto.Unmarshal(raw, info); err != nil {
		t.Fatal(err)
	}
	return info
}

func TestTokenIsReplacedOnOpenStreams(t *testing.T) {
	r := newRig(t, extserver.Options{})
	r.SetToken(token("AT"))
	stream := r.subscribe(oauthTopic)
	row := r.next(stream).GetInitialState().GetData()[oauthKey]
	if info := tokenOf(t, row.GetValue()); info.GetAccessToken() != "AT" || info.GetTokenType() != "Bearer" ||
		info.GetRefreshToken() != "" || !info.GetExpiry().AsTime().Equal(expiry) || row.GetETag() != 1 {
		t.Errorf("got %v, version %d", info, row.GetETag())
	}
	r.SetToken(token("AT")) // no change, no update
	r.SetToken(token("AT2"))
	applied := r.next(stream).GetAppliedUpdate()
	if got := tokenOf(t, applied.GetNewRow().GetValue()).GetAccessToken(); applied.GetKey() != oauthKey || got != "AT2" ||
		applied.GetNewRow().GetETag() != 2 {
		t.Errorf("got %v, token %s", applied, got)
	}
	r.SetToken(extserver.Token{})
	if applied := r.next(stream).GetAppliedUpdate(); !applied.GetDeleted() || applied.GetKey() != oauthKey || applied.GetNewRow() != nil {
		t.Errorf("got %v", applied)
	}
	if rows := r.next(r.subscribe(oauthTopic)).GetInitialState().GetData(); len(rows) != 0 {
		t.Errorf("got %v", rows)
	}
}

func TestFirstFrameOfAnUnknownTopicIsEmpty(t *testing.T) {
	r := newRig(t, extserver.Options{})
	res := r.open("SubscribeToUnifiedStateSyncTopic", streamP, envelope(0, subscribeMessage("uss-nothing")))
	if f := readFrame(t, res.Body); f.flags != 0 || !bytes.Equal(f.message, unhex(t, "0a00")) {
		t.Errorf("got %v", f)
	}
}

func (r *serverRig) push(update *uss.UpdateRequest) connect.Code {
	_, err := r.client.PushUnifiedStateSyncUpdate(r.Context(),
		connect.NewRequest(&pb.PushUnifiedStateSyncUpdateRequest{Update: update}))
	return codeOf(err)
}

func TestPushesAreMergedAndEchoed(t *testing.T) {
	r := newRig(t, extserver.Options{})
	streams := []*connect.ServerStreamForClient[pb.UnifiedStateSyncUpdate]{r.subscribe("t"), r.subscribe("t")}
	for _, stream := range streams {
		if rows := r.next(stream).GetInitialState(); rows == nil || len(rows.GetData()) != 0 {
			t.Errorf("got %v", rows)
		}
	}
	for _, step := range []struct {
		name   string
		update *uss.UpdateRequest
		code   connect.Code
		echo   *uss.AppliedUpdate
	}{
		{"current form", &uss.UpdateRequest{TopicName: "t", AppliedUpdate: &uss.AppliedUpdate{Key: "k", NewRow: &uss.Row{Value: "a", ETag: 77},
			CurrentETag: 99}}, 0, &uss.AppliedUpdate{Key: "k", NewRow: &uss.Row{Value: "a", ETag: 1}}},
		{"older form", &uss.UpdateRequest{TopicName: "t", Key: "k", Row: &uss.Row{Value: "b"}}, 0,
			&uss.AppliedUpdate{Key: "k", NewRow: &uss.Row{Value: "b", ETag: 2}}},
		{"another topic", &uss.UpdateRequest{TopicName: "u", Key: "k", Row: &uss.Row{Value: "b"}}, 0, nil},
		{"empty value", &uss.UpdateRequest{TopicName: "t", Key: "k2", Row: &uss.Row{}}, 0,
			&uss.AppliedUpdate{Key: "k2", NewRow: &uss.Row{ETag: 1}}},
		{"deleted", &uss.UpdateRequest{TopicName: "t", AppliedUpdate: &uss.AppliedUpdate{Key: "k", Deleted: true}}, 0,
			&uss.AppliedUpdate{Key: "k", Deleted: true}},
		{"nothing", nil, connect.CodeInvalidArgument, nil},
		{"neither form", &uss.UpdateRequest{TopicName: "t"}, connect.CodeInvalidArgument, nil},
		{"no row", &uss.UpdateRequest{TopicName: "t", Key: "k"}, connect.CodeInvalidArgument, nil},
		{"no key", &uss.UpdateRequest{TopicName: "t", Row: &uss.Row{}}, connect.CodeInvalidArgument, nil},
		{"no topic", &uss.UpdateRequest{Key: "k", Row: &uss.Row{}}, connect.CodeInvalidArgument, nil},
		{"last", &uss.UpdateRequest{TopicName: "t", Key: "k", Row: &uss.Row{Value: "c"}}, 0,
			&uss.AppliedUpdate{Key: "k", NewRow: &uss.Row{Value: "c", ETag: 3}}},
	} {
		if code := r.push(step.update); code != step.code {
			t.Errorf("%s: got %v", step.name, code)
		}
		for _, stream := range streams {
			if step.echo != nil {
				if got := r.next(stream).GetAppliedUpdate(); !gproto.Equal(got, step.echo) {
					t.Errorf("%s: got %v, want %v", step.name, got, step.echo)
				}
			}
		}
	}
	rows := r.next(r.subscribe("t")).GetInitialState().GetData()
	if len(rows) != 2 || rows["k"].GetValue() != "c" || rows["k2"] == nil {
		t.Errorf("got %v", rows)
	}
}

func TestTheTokenCannotBePushed(t *testing.T) {
	r := newRig(t, extserver.Options{})
	r.SetToken(token("AT"))
	stream := r.subscribe(oauthTopic)
	before := r.next(stream).GetInitialState().GetData()[oauthKey]
	for _, update := range []*uss.UpdateRequest{
		{TopicName: oauthTopic, Key: oauthKey, Row: &uss.Row{Value: "old"}},
		{TopicName: oauthTopic, AppliedUpdate: &uss.AppliedUpdate{Key: oauthKey, NewRow: &uss.Row{Value: "old"}}},
		{TopicName: oauthTopic, AppliedUpdate: &uss.AppliedUpdate{Key: oauthKey, Deleted: true}},
		{TopicName: "uss-agentPreferences", Key: "terminalAutoExecutionPolicySentinelKey", Row: &uss.Row{Value: "CAM="}},
		{TopicName: oauthTopic, Key: "another", Row: &uss.Row{Value: "v"}},
	} {
		if code := r.push(update); code != 0 {
			t.Errorf("got %v", code)
		}
	}
	// The first update that arrives is the row that may be pushed.
	if applied := r.next(stream).GetAppliedUpdate(); applied.GetKey() != "another" {
		t.Errorf("got %v", applied)
	}
	if row := r.next(r.subscribe(oauthTopic)).GetInitialState().GetData()[oauthKey]; !gproto.Equal(row, before) {
		t.Errorf("got %v", row)
	}
	rows := r.next(r.subscribe("uss-agentPreferences")).GetInitialState().GetData()
	if got := rows["terminalAutoExecutionPolicySentinelKey"]; got.GetValue() == "CAM=" || got.GetETag() != 1 {
		t.Errorf("got %v", got)
	}
}

func TestPushesFillTheStore(t *testing.T) {
	r := newRig(t, extserver.Options{})
	value := strings.Repeat("v", 8<<20)
	for i := range 8 {
		code := r.push(&uss.UpdateRequest{TopicName: "t", Key: fmt.Sprint(i), Row: &uss.Row{Value: value}})
		if i < 7 && code != 0 || i == 7 && code != connect.CodeResourceExhausted {
			t.Errorf("push %d: got %v", i, code)
		}
	}
	r.SetToken(token("AT")) // and there is room for the token
	if rows := r.next(r.subscribe(oauthTopic)).GetInitialState().GetData(); len(rows) != 1 {
		t.Errorf("got %d rows", len(rows))
	}
}

// Summaries of conversations that are about to be deleted do not fill their topic. Those of other
// conversations stay until they are forgotten.
func TestSummariesOfTransientConversationsAreNotKept(t *testing.T) {
	r := newRig(t, extserver.Options{Transient: func(cascade string) bool { return strings.HasPrefix(cascade, "own-") }})
	push := func(key string, deleted bool) {
		t.Helper()
		update := &uss.AppliedUpdate{Key: key, NewRow: &uss.Row{Value: "CgJoaQ=="}, Deleted: deleted}
		if code := r.push(&uss.UpdateRequest{TopicName: "trajectorySummaries", AppliedUpdate: update}); code != 0 {
			t.Fatalf("push of %s: %v", key, code)
		}
	}
	pushes := extserver.DefaultTopicLimits.Keys + 1
	if testing.Short() {
		pushes = 100
	}
	for i := range pushes {
		push(fmt.Sprintf("own-%d", i), false)
	}
	push("user-1", false)
	push("user-2", false)
	push("own-1", true)
	rows := func() (keys []string) {
		return slices.Sorted(maps.Keys(r.next(r.subscribe("trajectorySummaries")).GetInitialState().GetData()))
	}
	if got := rows(); !slices.Equal(got, []string{"user-1", "user-2"}) {
		t.Errorf("rows %q", got)
	}
	r.Forget("user-2")
	r.Forget("own-2")
	if got := rows(); !slices.Equal(got, []string{"user-1"}) {
		t.Errorf("rows %q", got)
	}
}

// TestPolicy reads the settings as the language server may: as a dedicated message with the value
// in field 1, as Primitive, or as the first number.
func TestPolicy(t *testing.T) {
	r := newRig(t, extserver.Options{})
	decode := func(topic, key string, m gproto.Message) {
		t.Helper()
		row := r.next(r.subscribe(topic)).GetInitialState().GetData()[key]
		raw, err := base64.StdEncoding.DecodeString(row.GetValue())
		if row == nil || err != nil {
			t.Errorf("%s/%s: %v, %v", topic, key, row, err)
		}
		if err := gproto.Unmarshal(raw, m); err != nil {
			t.Errorf("%s/%s: %v", topic, key, err)
		}
	}
	const agent = "uss-agentPreferences"
	for key, want := range map[string]bool{
		"secureModeSentinelKey":                            true,
		"allowAgentAccessNonWorkspaceFilesSentinelKey":     false,
		"allowCascadeAccessGitignoreFilesSentinelKey":      false,
		"autoContinueOnMaxGeneratorInvocationsSentinelKey": false,
		"disableCascadeAutoFixLintsSentinelKey":            true,
	} {
		var value uss.Primitive
		decode(agent, key, &value)
		if _, ok := value.GetValue().(*uss.Primitive_BoolValue); !ok || value.GetBoolValue() != want {
			t.Errorf("%s: got %v", key, &value)
		}
	}
	for topic, key := range map[string]string{agent: "terminalAllowedCommandsSentinelKey", "uss-browserPreferences": "browserAllowlistSentinelKey"} {
		var value uss.Primitive
		decode(topic, key, &value)
		if value.GetRepeatedStringValue() == nil || len(value.GetRepeatedStringValue().GetValues()) != 0 {
			t.Errorf("%s: got %v", key, &value)
		}
	}
	var denied, tab, project, policy uss.Primitive
	decode(agent, "terminalDeniedCommandsSentinelKey", &denied)
	decode("uss-tabPreferences", "tabGitignoreAccessSentinelKey", &tab)
	decode("uss-enterprisePreferences", "gcpProjectIdSentinelKey", &project)
	decode(agent, "terminalAutoExecutionPolicySentinelKey", &policy)
	if denied.GetRepeatedStringValue() == nil || tab.GetBoolValue() || tab.GetValue() == nil || project.GetStringValue() != "" ||
		policy.GetInt32Value() != 1 {
		t.Errorf("got %v, %v, %v, %v", &denied, &tab, &project, &policy)
	}
	var likeOthers uss.BrowserJavascriptExecutionConfig // an enum in field 1
	decode(agent, "terminalAutoExecutionPolicySentinelKey", &likeOthers)
	if likeOthers.GetBrowserJsExecutionPolicy() != 1 {
		t.Errorf("got %v", &likeOthers)
	}
	var tools uss.BrowserToolsConfig
	decode("uss-browserPreferences", "browserToolsSentinelKey", &tools)
	var scripts uss.BrowserJavascriptExecutionConfig
	decode("uss-browserPreferences", "browserJsExecutionPolicySentinelKey", &scripts)
	if tools.GetAgentBrowserTools() != common.AgentBrowserTools_AGENT_BROWSER_TOOLS_DISABLED ||
		scripts.GetBrowserJsExecutionPolicy() != common.BrowserJsExecutionPolicy_BROWSER_JS_EXECUTION_POLICY_DISABLED {
		t.Errorf("got %v, %v", &tools, &scripts)
	}
	decode("uss-enterprisePreferences", "enterprisePreferencesSentinelKey", &uss.Primitive{})
}

// Each policy changes its own rows, and secure mode.
func TestPoliciesOfTheUser(t *testing.T) {
	truth := func(value string) string { return map[string]string{"CAA=": "false", "CAE=": "true"}[value] }
	for _, test := range []struct {
		policies                   extserver.Policies
		terminal                   int32
		files, browser, js, strict string
	}{
		{extserver.Policies{}, 1, "false", "CAI=", "CAE=", "true"},
		{extserver.Policies{Terminal: extserver.MayAsk}, 2, "false", "CAI=", "CAE=", "false"},
		{extserver.Policies{Terminal: extserver.NeverAsk}, 3, "false", "CAI=", "CAE=", "false"},
		{extserver.Policies{Browser: true}, 1, "false", "CAE=", "CAI=", "false"},
		{extserver.Policies{AllFiles: true}, 1, "true", "CAI=", "CAE=", "false"},
	} {
		r := newRig(t, extserver.Options{Policies: test.policies})
		agent := r.next(r.subscribe("uss-agentPreferences")).GetInitialState().GetData()
		browser := r.next(r.subscribe("uss-browserPreferences")).GetInitialState().GetData()
		var terminal uss.Primitive
		raw, err := base64.StdEncoding.DecodeString(agent["terminalAutoExecutionPolicySentinelKey"].GetValue())
		if err != nil || gproto.Unmarshal(raw, &terminal) != nil || terminal.GetInt32Value() != test.terminal {
			t.Errorf("%+v: terminal %v, %v", test.policies, &terminal, err)
		}
		for _, key := range []string{"allowAgentAccessNonWorkspaceFilesSentinelKey", "allowCascadeAccessGitignoreFilesSentinelKey"} {
			if got := truth(agent[key].GetValue()); got != test.files {
				t.Errorf("%+v: %s is %q", test.policies, key, got)
			}
		}
		if got := truth(agent["secureModeSentinelKey"].GetValue()); got != test.strict {
			t.Errorf("%+v: secure mode is %q", test.policies, got)
		}
		if got := browser["browserToolsSentinelKey"].GetValue(); got != test.browser {
			t.Errorf("%+v: browser %s", test.policies, got)
		}
		if got := browser["browserJsExecutionPolicySentinelKey"].GetValue(); got != test.js {
			t.Errorf("%+v: scripts %s", test.policies, got)
		}
	}
}

func TestSubscriptionsAreKeptAlive(t *testing.T) {
	r := newRig(t, extserver.Options{KeepAlive: time.Millisecond})
	for contentType, want := range map[string]string{streamP: "\x12\x00", streamJ: `{"appliedUpdate":{}}`} {
		body := subscribeMessage("t")
		if contentType == streamJ {
			body = []byte(`{"topic":"t"}`)
		}
		res := r.open("SubscribeToUnifiedStateSyncTopic", contentType, envelope(0, body))
		readFrame(t, res.Body)
		for range 3 {
			if f := readFrame(t, res.Body); f.flags != 0 || strings.ReplaceAll(string(f.message), " ", "") != want {
				t.Errorf("%s: got %v", contentType, f)
			}
		}
	}
}

// TestSlowSubscriberLosesItsStream has one subscriber that reads nothing, and one that reads
// everything.
func TestSlowSubscriberLosesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, extserver.Options{})
		quick := r.subscribe("t")
		r.next(quick)
		slow := r.rawSubscription("t")
		value := strings.Repeat("v", 1<<20)
		const pushes = 6 // more than a subscriber may leave unread
		for i := range pushes {
			if code := r.push(&uss.UpdateRequest{TopicName: "t", Key: "k", Row: &uss.Row{Value: value}}); code != 0 {
				t.Fatalf("push %d: %v", i, code)
			}
			if got := r.next(quick).GetAppliedUpdate().GetNewRow().GetETag(); got != int64(i+1) {
				t.Fatalf("update %d has version %d", i, got)
			}
		}
		if n := len(r.Requests()["SubscribeToUnifiedStateSyncTopic"]); n != 0 {
			t.Error("the stream ended before its second was over")
		}
		time.Sleep(2 * time.Second)
		if n := len(r.Requests()["SubscribeToUnifiedStateSyncTopic"]); n != 1 {
			t.Error("the stream has not ended")
		}
		if n, err := io.Copy(io.Discard, slow.Reader); err != nil || n > pushes<<20 {
			t.Errorf("got %d bytes of %d pushes, %v", n, pushes, err)
		}
	})
}

func TestSlowSubscriberThatReadsAgainIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { newPipeRig(t, extserver.Options{}).fallBehind() })
}

// TestConnectionOutlivesASlowStream checks that the deadline of a stream does not end the next call
// of its connection.
func TestConnectionOutlivesASlowStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, extserver.Options{})
		connection := r.fallBehind()
		time.Sleep(2 * time.Second)
		if _, err := fmt.Fprintf(connection, "POST %sHeartbeat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\n"+
			"X-Codeium-Csrf-Token: %s\r\nContent-Length: 0\r\n\r\n", path, proto, r.CSRF().Reveal()); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(connection.Reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			t.Errorf("got %s", res.Status)
		}
	})
}

// fallBehind has a subscriber, in a bubble, fall behind, read on within its second, and get a last
// frame. The connection can be used again.
func (r *serverRig) fallBehind() rawConn {
	r.Helper()
	push := func(key string, size int) {
		r.Helper()
		if code := r.push(&uss.UpdateRequest{TopicName: "t", Key: key, Row: &uss.Row{Value: strings.Repeat("v", size)}}); code != 0 {
			r.Fatal(code)
		}
	}
	push("initial", 1<<20) // no update is sent before this is read
	slow := r.rawSubscription("t")
	push("k", 3<<20)
	push("k", 3<<20) // both are more than 4 MiB
	res, err := http.ReadResponse(slow.Reader, nil)
	if err != nil {
		r.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		r.Fatal(err)
	}
	messages, code := frames(r, body)
	if code != "unavailable" || len(messages) != 1 {
		r.Errorf("got %d messages, %s", len(messages), code)
	}
	return slow
}

// A rawConn is a connection that is read through a buffer.
type rawConn struct {
	*bufio.Reader
	io.Writer
}

// rawSubscription subscribes on a connection of its own, and reads no more than the beginning of
// the answer.
func (r *serverRig) rawSubscription(topic string) rawConn {
	r.Helper()
	conn := r.dial()
	body := envelope(0, subscribeMessage(topic))
	if _, err := fmt.Fprintf(conn, "POST %sSubscribeToUnifiedStateSyncTopic HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\n"+
		"X-Codeium-Csrf-Token: %s\r\nContent-Length: %d\r\n\r\n%s", path, streamP, r.CSRF().Reveal(), len(body), body); err != nil {
		r.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	if _, err := reader.Peek(1); err != nil {
		r.Fatal(err)
	}
	return rawConn{reader, conn}
}

// TestSnapshotsForSlowReadersAreBounded has readers that do not read take large snapshots, until
// one more is refused.
func TestSnapshotsForSlowReadersAreBounded(t *testing.T) {
	r := newRig(t, extserver.Options{})
	r.SetToken(token("AT"))
	for i := range 3 {
		push := &pb.PushUnifiedStateSyncUpdateRequest{Update: &uss.UpdateRequest{
			TopicName: "large", AppliedUpdate: &uss.AppliedUpdate{Key: fmt.Sprint(i), NewRow: &uss.Row{Value: strings.Repeat("x", 14<<20)}}}}
		if _, err := r.client.PushUnifiedStateSyncUpdate(t.Context(), connect.NewRequest(push)); err != nil {
			t.Fatal(err)
		}
	}
	var slow []*http.Response
	for range 3 {
		slow = append(slow, r.open("SubscribeToUnifiedStateSyncTopic", streamP, envelope(0, subscribeMessage("large"))))
	}
	stream := r.subscribe("large")
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeResourceExhausted {
		t.Errorf("the fourth snapshot: %v", stream.Err())
	}
	if r.next(r.subscribe(oauthTopic)).GetInitialState().GetData()[oauthKey] == nil {
		t.Error("a small snapshot is not sent")
	}
	for _, res := range slow {
		_ = res.Body.Close()
	}
	await.Until(t, "the readers have left, and a large snapshot is sent", func() bool {
		stream := r.subscribe("large")
		return stream.Receive() && len(stream.Msg().GetInitialState().GetData()) == 3
	})
}
