package extserver_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"

	pb "perigee/gen/exa/extension_server_pb"
	uss "perigee/gen/exa/unified_state_sync_pb"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/testing/perigeetest/await"
)

// Published byte sequences of the protocol, with dummy values.
const (
	goldenSubscribe = "000000000b 0a097573732d6f61757468"
	goldenEmpty     = "0000000002 0a00"
	goldenEnd       = "0200000002 7b7d"
	goldenToken     = "CgJBVBIGQmVhcmVyGgJSVCIGCICumaQP" // access token, type, refresh token, expiry
	goldenEntry     = "0a196f61757468546f6b656e496e666f53656e74696e656c4b6579" + "1222" +
		"0a2043674a4256424947516d5668636d567947674a5356434947434943756d615150"
	goldenStarted = "08b1be021081850228b2be02"
	goldenPush    = "0a270a137472616a6563746f727953756d6d61726965732a100a026331120a0a0843674a6f61513d3d"
	goldenShell   = "08011204626173681a092f62696e2f62617368"
)

// TestGoldenSubscription compares all bytes of a stream with the published ones.
func TestGoldenSubscription(t *testing.T) {
	r := newRig(t, extserver.Options{})
	stream := r.open("SubscribeToUnifiedStateSyncTopic", streamP, unhex(t, goldenSubscribe)).Body
	expect := func(what string, want []byte) {
		t.Helper()
		f := readFrame(t, stream)
		if got := envelope(f.flags, f.message); !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, want %x", what, got, want)
		}
	}
	expect("empty initial state", unhex(t, goldenEmpty))

	// The published row has a refresh token and no version. Ours is the same without the one and
	// with the other.
	value, err := base64.StdEncoding.DecodeString(goldenToken)
	if err != nil {
		t.Fatal(err)
	}
	value = bytes.Replace(value, []byte("\x1a\x02RT"), nil, 1)
	row := func(version uint64) []byte {
		b := protowire.AppendTag(nil, 1, protowire.BytesType)
		b = protowire.AppendString(b, base64.StdEncoding.EncodeToString(value))
		return protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), version)
	}
	entry := func(version uint64) []byte {
		b := protowire.AppendTag(nil, 1, protowire.BytesType)
		b = protowire.AppendString(b, oauthKey)
		return protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), row(version))
	}
	r.SetToken(token("AT"))
	applied := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), entry(1))
	expect("applied update", envelope(0, applied))

	second := r.open("SubscribeToUnifiedStateSyncTopic", streamP, unhex(t, goldenSubscribe)).Body
	stream, previous := second, stream
	topic := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry(1))
	expect("initial state", envelope(0, protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), topic)))

	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	expect("end", unhex(t, goldenEnd))
	stream = previous
	expect("end", unhex(t, goldenEnd))
}

// TestGoldenMessages has the server read published messages, and compares what it makes of them.
func TestGoldenMessages(t *testing.T) {
	started := make(chan lsclient.Endpoint, 1)
	r := newEditRig(t, extserver.Options{AllowCommand: true, Started: func(p lsclient.Endpoint) { started <- p }})
	if status, body := r.post("LanguageServerStarted", proto, unhex(t, goldenStarted)); status != 200 || len(body) != 0 {
		t.Errorf("got %d, %x", status, body)
	}
	if p := await.Receive(t, started, "the ports"); p != (lsclient.Endpoint{HTTPS: 40753, HTTP: 40754}) {
		t.Errorf("got %+v", p)
	}

	if status, body := r.post("PushUnifiedStateSyncUpdate", proto, unhex(t, goldenPush)); status != 200 || len(body) != 0 {
		t.Errorf("got %d, %x", status, body)
	}
	rows := r.next(r.subscribe("trajectorySummaries")).GetInitialState().GetData()
	if len(rows) != 1 || rows["c1"].GetValue() != "CgJoaQ==" {
		t.Errorf("got %v", rows)
	}

	// A row with the published value, as it is sent on: the published map entry and its version.
	push, err := gproto.Marshal(&pb.PushUnifiedStateSyncUpdateRequest{Update: &uss.UpdateRequest{
		TopicName: "copy", Key: oauthKey, Row: &uss.Row{Value: goldenToken}}})
	if err != nil {
		t.Fatal(err)
	}
	r.post("PushUnifiedStateSyncUpdate", streamP, push)
	_, answer := r.post("SubscribeToUnifiedStateSyncTopic", proto, subscribeMessage("copy"))
	entry := unhex(t, goldenEntry)
	entry = append(bytes.Replace(entry, []byte{0x12, 0x22}, []byte{0x12, 0x24}, 1), 0x10, 0x01) // two bytes more: version 1
	want := append([]byte{0x0a, byte(len(entry)) + 2, 0x0a, byte(len(entry))}, entry...)
	if !bytes.Equal(answer, want) {
		t.Errorf("got %x, want %x", answer, want)
	}

	_, answer = r.post("CheckTerminalShellSupport", proto, nil)
	if want := unhex(t, goldenShell); !bytes.Equal(answer, want) && bytes.Contains(answer, []byte("/bin/bash")) {
		t.Errorf("got %x, want %x", answer, want)
	}
}
