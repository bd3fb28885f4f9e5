package connectframe

import (
	"bytes"
	"errors"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	extensionserverpb "perigee/gen/exa/extension_server_pb"
	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
)

// TestFramesOnTheWire compares frames with their bytes.
func TestFramesOnTheWire(t *testing.T) {
	marshal := func(message proto.Message) []byte {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	row := &unifiedstatesyncpb.Row{Value: "CgJBVBIGQmVhcmVyGgJSVCIGCICumaQP"}
	const key = "oauthTokenInfoSentinelKey"
	entry := "0a19" + "6f61757468546f6b656e496e666f53656e74696e656c4b6579" + "1222" +
		"0a20" + "43674a4256424947516d5668636d567947674a5356434947434943756d615150"
	for name, test := range map[string]struct {
		frame []byte
		want  string
	}{
		"subscribe": {
			Frame(nil, 0, marshal(&extensionserverpb.SubscribeToUnifiedStateSyncTopicRequest{Topic: "uss-oauth"})),
			"000000000b 0a097573732d6f61757468",
		},
		"smallest first frame": {
			Frame(nil, 0, marshal(&extensionserverpb.UnifiedStateSyncUpdate{
				UpdateType: &extensionserverpb.UnifiedStateSyncUpdate_InitialState{InitialState: &unifiedstatesyncpb.Topic{}},
			})),
			"0000000002 0a00",
		},
		"first frame with a token": {
			Frame(nil, 0, marshal(&extensionserverpb.UnifiedStateSyncUpdate{
				UpdateType: &extensionserverpb.UnifiedStateSyncUpdate_InitialState{
					InitialState: &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{key: row}},
				},
			})),
			"0000000043 0a41 0a3f" + entry,
		},
		"token as an update": {
			Frame(nil, 0, marshal(&extensionserverpb.UnifiedStateSyncUpdate{
				UpdateType: &extensionserverpb.UnifiedStateSyncUpdate_AppliedUpdate{
					AppliedUpdate: &unifiedstatesyncpb.AppliedUpdate{Key: key, NewRow: row},
				},
			})),
			"0000000041 123f" + entry,
		},
		"end": {EndFrame(nil), "0200000002 7b7d"},
	} {
		if want := unhex(t, test.want); !bytes.Equal(test.frame, want) {
			t.Errorf("%s: %x, want %x", name, test.frame, want)
		}
	}
	if got := string(Frame([]byte("before"), 1, []byte("x"))); got != "before\x01\x00\x00\x00\x01x" {
		t.Errorf("appended frame: %q", got)
	}
}

func TestEndFramesHaveErrorsWithMetadata(t *testing.T) {
	coded := connect.NewError(connect.CodeUnavailable, errors.New("the subscriber is too slow"))
	coded.Meta().Set("X-Reason", "slow")
	for want, err := range map[string]error{
		`{"error":{"code":"unavailable","message":"the subscriber is too slow"},"metadata":{"X-Reason":["slow"]}}`: coded,
		`{"error":{"code":"unknown","message":"plain"}}`:                                                           errors.New("plain"),
	} {
		if got := splitFrames(t, EndFrame(err)); len(got) != 1 || got[0].flags != 2 || got[0].message != want {
			t.Errorf("got %q, want %s", got, want)
		}
	}
}
