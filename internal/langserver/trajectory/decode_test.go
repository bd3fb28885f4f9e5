package trajectory

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// describe is a listing as a text, in which unknown values are left out.
func describe(l Listing) string {
	var lines []string
	for _, s := range l.Conversations {
		line := s.ID
		add := func(name string, value any, known bool) {
			if known {
				line += fmt.Sprint(" ", name, "=", value)
			}
		}
		add("in", s.Workspaces, s.Workspaces != nil)
		add("modified", s.Modified.UTC().Format(time.RFC3339Nano), !s.Modified.IsZero())
		add("created", s.Created.UTC().Format(time.RFC3339Nano), !s.Created.IsZero())
		add("input", s.LastInput.UTC().Format(time.RFC3339Nano), !s.LastInput.IsZero())
		add("steps", s.Steps, s.Steps > 0)
		add("at", s.InputStep, s.InputStep > 0)
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for _, line := range l.Degraded {
		lines = append(lines, "! "+line)
	}
	return strings.Join(lines, "\n")
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// base is what the database of the IDE keeps of a message.
func base(data []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(data)) }

// state is the value of the database for these conversations.
func stateValue(t testing.TB, list map[string]*jetskicortexpb.CascadeTrajectorySummary) []byte {
	topic := &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{}}
	for id, s := range list {
		topic.Data[id] = &unifiedstatesyncpb.Row{Value: string(base(encode(t, s))), ETag: 1}
	}
	return base(encode(t, topic))
}

func exampleSummary() *jetskicortexpb.CascadeTrajectorySummary {
	at := func(seconds int64) *timestamppb.Timestamp {
		return &timestamppb.Timestamp{Seconds: seconds, Nanos: 5e8}
	}
	return &jetskicortexpb.CascadeTrajectorySummary{
		Summary: "s", StepCount: 3, LastModifiedTime: at(1794834000), TrajectoryId: "t", Status: cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING,
		CreatedTime: at(1794830400), WaitingSteps: []*jetskicortexpb.CortexTrajectoryStepWithIndex{{Step: &geminicoder.Step{}, StepIndex: 2}},
		Workspaces: []*cortexpb.CortexWorkspaceMetadata{{WorkspaceFolderAbsoluteUri: "file:///w", BranchName: "b"}}, LastUserInputTime: at(1794834000),
		Annotations: &jetskicortexpb.ConversationAnnotations{Title: proto.String("named")}, LastUserInputStepIndex: proto.Uint32(2),
	}
}

const exampleText = " in=[file:///w] modified=2026-11-16T13:00:00.5Z created=2026-11-16T12:00:00.5Z input=2026-11-16T13:00:00.5Z steps=3 at=2"

func TestSummariesAreRead(t *testing.T) {
	odd := exampleSummary()
	odd.StepCount, odd.LastModifiedTime, odd.CreatedTime = 1<<31, &timestamppb.Timestamp{Seconds: 1}, &timestamppb.Timestamp{Nanos: -1}
	odd.Workspaces = []*cortexpb.CortexWorkspaceMetadata{{}, {WorkspaceFolderAbsoluteUri: "vscode-remote://host/x"}}
	for _, test := range []struct {
		name    string
		summary *jetskicortexpb.CascadeTrajectorySummary
		want    string
	}{
		{"everything", exampleSummary(), exampleText},
		{"nothing", &jetskicortexpb.CascadeTrajectorySummary{}, ""},
		{"absent", nil, ""},
		{"no time, no count, no directory", odd, " in=[vscode-remote://host/x] input=2026-11-16T13:00:00.5Z at=2"},
	} {
		var l Listing
		l.keep(summaryOf("c1", test.summary))
		if got := describe(l); got != "c1"+test.want {
			t.Errorf("%s: got %s", test.name, got)
		}
	}
	var l Listing
	for _, id := range []string{"", "../c", "a\nb", "a b", "\uFFFD", strings.Repeat("x", 129), ".c"} {
		l.keep(Summary{ID: id})
	}
	if got := describe(l); got != "! a conversation without an ID" {
		t.Errorf("got %s", got)
	}
}

func TestStateOfTheIDE(t *testing.T) {
	whole := stateValue(t, map[string]*jetskicortexpb.CascadeTrajectorySummary{"c1": exampleSummary()})
	raw, err := base64.StdEncoding.DecodeString(string(whole))
	if err != nil {
		t.Fatal(err)
	}
	rows := func(rows map[string]string) []byte {
		topic := &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{}}
		for id, value := range rows {
			topic.Data[id] = &unifiedstatesyncpb.Row{Value: value}
		}
		return base(encode(t, topic))
	}
	const unreadable, row = "! its list of conversations cannot be read", "! a row of its list of conversations cannot be read"
	for _, test := range []struct {
		name   string
		values map[string][]byte
		want   string
	}{
		{"whole", map[string][]byte{summariesKey: whole}, "c1" + exampleText},
		{"no conversations", map[string][]byte{summariesKey: {}}, ""},
		{"nothing", nil, "! it has no list of conversations"},
		{"too large", map[string][]byte{summariesKey: nil}, "! its list of conversations is too large"},
		{"not base64", map[string][]byte{summariesKey: []byte("{}")}, unreadable},
		{"no message", map[string][]byte{summariesKey: base([]byte{0xff})}, unreadable},
		{"cut off", map[string][]byte{summariesKey: base(raw[:len(raw)-20])}, unreadable},
		{"a row that is not base64, and one that is", map[string][]byte{summariesKey: rows(map[string]string{"c1": "%", "c2": "CgJoaQ=="})}, "c2\n" + row},
		{"a row that is no message", map[string][]byte{summariesKey: rows(map[string]string{"c1": "/w=="})}, row},
		{"unknown fields", map[string][]byte{summariesKey: rows(map[string]string{"c1": string(base([]byte{0x10, 5, 0xfa, 0x07, 0x01, 0x00}))})}, "c1 steps=5"},
		{"other types", map[string][]byte{summariesKey: rows(map[string]string{"c1": string(base([]byte{0x08, 1, 0x12, 0, 0x18, 1}))})}, "c1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := describe(decodeState(test.values)); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestGoldenBytes reads the published bytes of an update of the topic, whose applied_update has the
// form of an entry of the map, and those of a topic with a row of another kind.
func TestGoldenBytes(t *testing.T) {
	update := unhex(t, "0a270a137472616a6563746f727953756d6d61726965732a100a026331120a0a0843674a6f61513d3d")
	entry := update[len(update)-16:]
	topic := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
	if got := describe(decodeState(map[string][]byte{summariesKey: base(topic)})); got != "c1" {
		t.Errorf("got %s", got)
	}
	token := unhex(t, "0a3f0a196f61757468546f6b656e496e666f53656e74696e656c4b657912220a2043674a4256424947516d5668636d567947674a5356434947434943756d615150")
	if got := fmt.Sprintf("%+v", decodeState(map[string][]byte{summariesKey: base(token)})); strings.Contains(got, "RT") {
		t.Errorf("a row with a token: %s", got)
	}
}

func FuzzState(f *testing.F) {
	whole := encode(f, &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{"c1": {Value: string(base(encode(f, exampleSummary())))}}})
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add(encode(f, exampleSummary()))
	f.Add([]byte{0x0b, 0x0b, 0x0c})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range decodeState(map[string][]byte{summariesKey: base(data)}).Conversations {
			if !plausibleID(c.ID) || c.Steps < 0 || c.InputStep < 0 || !c.Modified.IsZero() && !plausibleTime(c.Modified) {
				t.Errorf("got %+v", c)
			}
		}
	})
}
