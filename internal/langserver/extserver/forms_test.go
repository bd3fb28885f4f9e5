package extserver_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "perigee/gen/exa/extension_server_pb"
	uss "perigee/gen/exa/unified_state_sync_pb"
	"perigee/internal/langserver/extserver"
	"perigee/internal/testing/perigeetest/await"
)

// answers are those that are not an empty message. A code is for both forms, unless there is
// another one for the unary form.
var answers = map[string]struct {
	code, unaryCode string
	message         gproto.Message
}{
	"TerminalResearchResult":                 {code: "unimplemented"},
	"EditNotebook":                           {code: "unimplemented"},
	"ReadNotebook":                           {code: "unimplemented"},
	"HandleProposeCodeExtensionVerification": {code: "unimplemented"},
	"LaunchBrowser":                          {code: "unimplemented"},
	"FetchMCPAuthToken":                      {code: "unauthenticated"},
	"GetSecretValue":                         {code: "not_found"},
	"ExecuteCommand":                         {code: "permission_denied", unaryCode: "unimplemented"},
	"WriteCascadeEdit":                       {code: "permission_denied"},
	"SaveDocument":                           {code: "permission_denied"},
	"SendTerminalInput":                      {message: &pb.SendTerminalInputResponse{Error: gproto.String("headless")}},
	"RunExtensionCode":                       {message: &pb.RunExtensionCodeResponse{Output: "not supported"}},
	"SubscribeToUnifiedStateSyncTopic": {message: &pb.UnifiedStateSyncUpdate{
		UpdateType: &pb.UnifiedStateSyncUpdate_InitialState{InitialState: &uss.Topic{}}}},
}

var statusOf = map[string]int{
	"ok": 200, "unimplemented": 501, "unauthenticated": 401, "not_found": 404, "permission_denied": 403,
}

func newMessage(t *testing.T, descriptor protoreflect.MessageDescriptor) protoreflect.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New()
}

// request is a message with a value in each text, and with a field that the server does not know.
func request(t *testing.T, method protoreflect.MethodDescriptor) (binary, text []byte) {
	t.Helper()
	m := newMessage(t, method.Input())
	for i := range m.Descriptor().Fields().Len() {
		if field := m.Descriptor().Fields().Get(i); field.Kind() == protoreflect.StringKind && !field.IsList() && !field.IsMap() {
			m.Set(field, protoreflect.ValueOfString("x"))
		}
	}
	if push, ok := m.Interface().(*pb.PushUnifiedStateSyncUpdateRequest); ok {
		push.Update = &uss.UpdateRequest{TopicName: "pushed", Key: "key", Row: &uss.Row{Value: "value"}}
	}
	binary, err := gproto.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	text, err = protojson.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	binary = protowire.AppendString(protowire.AppendTag(binary, 5000, protowire.BytesType), "later")
	separator := ","
	if string(text) == "{}" {
		separator = ""
	}
	return binary, append(text[:len(text)-1], (separator + `"later":[1]}`)...)
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A form is a way to send a message.
type form struct {
	name   string
	stream bool
	body   func(*testing.T, []byte) []byte
	header []string
}

var forms = []form{
	{"unary", false, func(_ *testing.T, m []byte) []byte { return m }, nil},
	{"unary, compressed", false, compressed, []string{"Content-Encoding", "gzip"}},
	{"stream, enveloped", true, func(_ *testing.T, m []byte) []byte { return envelope(0, m) }, nil},
	{"stream, compressed", true, func(t *testing.T, m []byte) []byte { return envelope(1, compressed(t, m)) },
		[]string{"Connect-Content-Encoding", "gzip"}},
	{"stream, bare", true, func(_ *testing.T, m []byte) []byte { return m }, nil},
	{"stream, bare and compressed", true, compressed, []string{"Content-Encoding", "gzip"}},
}

// TestEveryMethodInEveryForm calls all methods of the protocol with both codecs, as unary calls and
// as streams, and with every framing of the request.
func TestEveryMethodInEveryForm(t *testing.T) {
	r := newRig(t, extserver.Options{})
	methods := pb.File_exa_extension_server_pb_extension_server_proto.Services().Get(0).Methods()
	if methods.Len() != 55 {
		t.Errorf("the protocol has %d methods", methods.Len())
	}
	want := map[string]map[string]int64{}
	for i := range methods.Len() {
		method := methods.Get(i)
		name := string(method.Name())
		want[name] = map[string]int64{}
		binary, text := request(t, method)
		for _, form := range forms {
			for _, codec := range []string{"proto", "json"} {
				message := binary
				if codec == "json" {
					message = text
				}
				code := r.checkCall(method, form, codec, form.body(t, message))
				if form.stream && name == "SubscribeToUnifiedStateSyncTopic" {
					code = "canceled" // by the test, after the first frame
				}
				want[name][code]++
			}
		}
	}
	await.Until(t, "all calls are counted", func() bool { return fmt.Sprint(r.Requests()) == fmt.Sprint(want) })
}

// checkCall makes a call and checks its answer. It returns the code that was expected.
func (r *serverRig) checkCall(method protoreflect.MethodDescriptor, form form, codec string, body []byte) string {
	r.Helper()
	name := string(method.Name())
	answer := answers[name]
	code, contentType := answer.code, "application/"+codec
	if form.stream {
		contentType = "application/connect+" + codec
	} else if answer.unaryCode != "" {
		code = answer.unaryCode
	}
	if code == "" {
		code = "ok"
	}
	res := r.open(name, contentType, body, form.header...)
	defer func() { _ = res.Body.Close() }()
	fail := func(format string, args ...any) {
		r.Helper()
		r.Errorf("%s (%s, %s): %s", name, form.name, codec, fmt.Sprintf(format, args...))
	}
	if res.Header.Get("Content-Encoding") != "" {
		fail("the answer is compressed")
	}
	var message []byte
	switch {
	case !form.stream:
		message = readAll(r.T, res)
		if res.StatusCode != statusOf[code] {
			fail("status %d, %s", res.StatusCode, message)
		}
		if code != "ok" {
			contentType = "application/json"
			if got := errorCode(r, message, ""); got != code {
				fail("got %s", got)
			}
		}
	case name == "SubscribeToUnifiedStateSyncTopic":
		f := readFrame(r, res.Body)
		if message = f.message; f.flags != 0 {
			fail("got %q", f.message)
		}
	default:
		messages, got := frames(r, readAll(r.T, res))
		if res.StatusCode != http.StatusOK || got != code || code == "ok" && len(messages) != 1 || code != "ok" && len(messages) != 0 {
			fail("status %d, %s, %q", res.StatusCode, got, messages)
		} else if code == "ok" {
			message = messages[0]
		}
	}
	if got := res.Header.Get("Content-Type"); got != contentType {
		fail("content type %s", got)
	}
	if code == "ok" {
		r.checkMessage(method, codec, message, answer.message, fail)
	}
	return code
}

func (r *serverRig) checkMessage(method protoreflect.MethodDescriptor, codec string, got []byte, want gproto.Message,
	fail func(string, ...any)) {
	r.Helper()
	m := newMessage(r.T, method.Output()).Interface()
	unmarshal := gproto.Unmarshal
	if codec == "json" {
		unmarshal = protojson.Unmarshal
	}
	if err := unmarshal(got, m); err != nil {
		fail("%q: %v", got, err)
	}
	switch {
	case method.Name() == "CheckTerminalShellSupport":
		if support := m.(*pb.CheckTerminalShellSupportResponse); support.GetHasShellIntegration() || support.GetShellPath() == "" {
			fail("got %v", m)
		}
	case want == nil:
		if codec == "proto" && len(got) != 0 || codec == "json" && string(got) != "{}" {
			fail("got %q", got)
		}
	case !gproto.Equal(m, want):
		fail("got %v", m)
	}
}
