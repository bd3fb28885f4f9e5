package find

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

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
		add("title", s.Title, s.Title != "")
		add("trajectory", s.TrajectoryID, s.TrajectoryID != "")
		add("in", s.Workspaces, s.Workspaces != nil)
		add("modified", s.Modified.UTC().Format(time.RFC3339Nano), !s.Modified.IsZero())
		add("created", s.Created.UTC().Format(time.RFC3339Nano), !s.Created.IsZero())
		add("input", s.LastInput.UTC().Format(time.RFC3339Nano), !s.LastInput.IsZero())
		add("steps", s.Steps, s.Steps >= 0)
		add("at", s.InputStep, s.InputStep >= 0)
		add("status", int(s.Status), s.Status != 0)
		add("waiting", true, s.Waiting)
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for _, line := range l.Degraded {
		lines = append(lines, "! "+line)
	}
	return strings.Join(lines, "\n")
}

const day = "2026-11-16T13:00:00Z"

func TestListOfALanguageServer(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"nothing", `{}`, ""},
		{"null", `{"trajectorySummaries":null}`, ""},
		{"everything", `{"trajectorySummaries":{"c1":{"summary":"s","stepCount":3,"lastModifiedTime":"2026-11-16T13:00:00.5Z","trajectoryId":"t",
			"status":"CASCADE_RUN_STATUS_RUNNING","createdTime":"2026-11-16T12:00:00+00:00","waitingSteps":[{"stepIndex":2}],
			"workspaces":[{"workspaceFolderAbsoluteUri":"file:///home/a%20b","branchName":"x"},{"workspaceFolderAbsoluteUri":"vscode-remote://host/x"}],
			"lastUserInputTime":"2026-11-16T13:00:00Z","lastUserInputStepIndex":2,"annotations":{"title":"named","starred":true},"latestNotifyUserStep":{},"new":[{}]}},
			"another":1}`,
			"c1 title=named trajectory=t in=[/home/a b vscode-remote://host/x] modified=2026-11-16T13:00:00.5Z created=2026-11-16T12:00:00Z input=2026-11-16T13:00:00Z steps=3 at=2 status=2 waiting=true"},
		{"zeros are left out", `{"trajectorySummaries":{"c1":{"lastModifiedTime":"` + day + `"}}}`, "c1 modified=" + day},
		{"enum as a number", `{"trajectorySummaries":{"c1":{"lastModifiedTime":"` + day + `","status":1}}}`, "c1 modified=" + day + " status=1"},
		{"no time", `{"trajectorySummaries":{"c1":{},"c2":{"lastModifiedTime":null}}}`, "c1\nc2\n! lastModifiedTime is missing (2 times)"},
		{"another name", `{"summaries":{"c1":{}}}`, "! trajectorySummaries is missing"},
		{"a list", `{"trajectorySummaries":[{"cascadeId":"c1","lastModifiedTime":"` + day + `"}]}`,
			"c1 modified=" + day + "\n! trajectorySummaries is an array instead of an object"},
		{"a list without IDs", `{"trajectorySummaries":[{"lastModifiedTime":"` + day + `"}, 1]}`,
			"! trajectorySummaries is an array instead of an object\n! a conversation without an ID (2 times)\n! a conversation is a number instead of an object"},
		{"a text", `{"trajectorySummaries":"c1"}`, "! trajectorySummaries is a string instead of an object"},
		{"numbers as strings", `{"trajectorySummaries":{"c1":{"stepCount":"3","lastModifiedTime":"1794834000000","lastUserInputStepIndex":"2"}}}`,
			"c1 modified=2026-11-16T13:00:00Z steps=3 at=2\n! stepCount is a string instead of a number\n! lastModifiedTime is a number in a string instead of a time\n! lastUserInputStepIndex is a string instead of a number"},
		{"times as numbers", `{"trajectorySummaries":{"c1":{"lastModifiedTime":1794834000,"createdTime":1794834000500,"lastUserInputTime":5}}}`,
			"c1 modified=2026-11-16T13:00:00Z created=2026-11-16T13:00:00.5Z\n! lastModifiedTime is a number instead of a time\n! createdTime is a number instead of a time\n! lastUserInputTime is a number instead of a time\n! lastUserInputTime is not a time"},
		{"times as objects", `{"trajectorySummaries":{"c1":{"lastModifiedTime":{"seconds":"1794834000","nanos":5e8},"createdTime":{"seconds":[]}}}}`,
			"c1 modified=2026-11-16T13:00:00.5Z\n! lastModifiedTime is an object instead of a time\n! createdTime is an object instead of a time\n! createdTime.seconds is not a number\n! createdTime is not a time"},
		{"other types", `{"trajectorySummaries":{"c1":{"summary":{},"stepCount":[],"lastModifiedTime":true,"trajectoryId":5,"status":{},"createdTime":"x","waitingSteps":3,
			"workspaces":{"a":1},"annotations":[]}}}`,
			"c1 trajectory=5\n! summary is an object instead of a string\n! stepCount is an array instead of a number\n! lastModifiedTime is a boolean instead of a time\n! trajectoryId is a number instead of a string\n! status is an object instead of a string\n! createdTime is not a time\n! waitingSteps is a number instead of an array\n! workspaces is an object instead of an array\n! annotations is an array instead of an object"},
		{"workspaces as texts", `{"trajectorySummaries":{"c1":{"lastModifiedTime":"` + day + `","workspaces":["file:///w",7,{"workspaceFolderAbsoluteUri":""}]}}}`,
			"c1 in=[/w] modified=" + day + "\n! a workspace is a string instead of an object\n! a workspace is a number instead of an object"},
		{"counts that are none", `{"trajectorySummaries":{"c1":{"lastModifiedTime":"` + day + `","stepCount":-1,"lastUserInputStepIndex":1e99,"status":"NEW_STATUS"}}}`,
			"c1 modified=" + day + "\n! stepCount is not a count\n! lastUserInputStepIndex is not a count\n! status has an unknown name"},
		{"an ID that is none", `{"trajectorySummaries":{"../c":{"lastModifiedTime":"` + day + `"},"":{"lastModifiedTime":"` + day + `"},"a\nb":{"lastModifiedTime":"` + day + `"}}}`,
			"! a conversation without an ID (3 times)"},
		{"no object", `[]`, "error"},
		{"no JSON", `{"trajectorySummaries":{`, "error"},
		{"empty", ``, "error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := decodeAll([]byte(test.body))
			got := describe(l)
			if err != nil {
				got = "error"
			}
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// The diagnostics of the IDE are a text with JSON, and also have logs, names and addresses.
func TestDiagnostics(t *testing.T) {
	whole := `{"isRemote":false,"systemInfo":{"userEmail":"ada@example.com","userName":"Ada"},"extensionLogs":["secret-log"],"languageServerLogs":{"logs":["secret-log"]},
		"recentTrajectories":[{"googleAgentId":"c1","trajectoryId":"t1","summary":"A title","lastStepIndex":4,"lastModifiedTime":"2026-11-16T13:00:00.123Z"},
		{"googleAgentId":"c2","trajectoryId":"t2","summary":"","lastStepIndex":-1,"lastModifiedTime":"2026-11-16T12:00:00Z"}]}`
	quoted, _ := json.Marshal(whole)
	twice, _ := json.Marshal(string(quoted))
	const want = "c1 title=A title trajectory=t1 modified=2026-11-16T13:00:00.123Z steps=5\nc2 trajectory=t2 modified=2026-11-16T12:00:00Z steps=0"
	for _, test := range []struct{ name, body, want string }{
		{"an object", whole, want},
		{"a text", string(quoted), want},
		{"a text of a text", string(twice), want},
		{"what the bridge says", `{"conversations":[{"id":"c1","title":"T","workspace":"/w","modified":"` + day + `","status":"waiting","steps":3},
			{"id":"c2","title":"T","workspace":"","modified":"` + day + `","status":"idle"},{"id":"c3","modified":"` + day + `","status":"odd"}]}`,
			"c1 title=T in=[/w] modified=" + day + " steps=3 status=2 waiting=true\nc2 title=T modified=" + day + " status=1\nc3 modified=" + day + "\n! status has an unknown name"},
		{"what was before", `{"submitted":"` + day + `","before":[{"id":"c1","modified":"` + day + `","steps":0}]}`, "c1 modified=" + day + " steps=0"},
		{"a list", `[{"id":"c1","modified":"` + day + `"}]`, "c1 modified=" + day},
		{"without", `{"systemInfo":{"userEmail":"ada@example.com"}}`, "! recentTrajectories is missing"},
		{"a map", `{"recentTrajectories":{"c1":{"lastModifiedTime":"` + day + `","lastStepIndex":"7"}}}`,
			"c1 modified=" + day + " steps=8\n! recentTrajectories is an object instead of an array\n! lastStepIndex is a string instead of a number"},
		{"other types", `{"recentTrajectories":[{"googleAgentId":7,"lastStepIndex":-2,"lastModifiedTime":"secret-log"}]}`,
			"7\n! googleAgentId is a number instead of a string\n! lastStepIndex is not a count\n! lastModifiedTime is not a time"},
		{"undefined", `null`, "error"}, {"a number", `5`, "error"}, {"a text that is none", `"secret-log"`, "error"}, {"empty", ``, "error"},
		{"deep", strings.Repeat("[", 100_000), "error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := decodeRecent([]byte(test.body))
			got := describe(l)
			if err != nil {
				got = "error"
				if strings.Contains(err.Error(), "secret") {
					t.Error(err)
				}
			}
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			for _, secret := range []string{"ada@", "Ada", "secret-log"} {
				if strings.Contains(fmt.Sprintf("%+v", l), secret) {
					t.Errorf("%q is kept", secret)
				}
			}
		})
	}
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
func state(t testing.TB, list map[string]*jetskicortexpb.CascadeTrajectorySummary) []byte {
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

const exampleText = " title=named trajectory=t in=[/w] modified=2026-11-16T13:00:00.5Z created=2026-11-16T12:00:00.5Z input=2026-11-16T13:00:00.5Z steps=3 at=2 status=2 waiting=true"

func TestStateOfTheIDE(t *testing.T) {
	one := map[string]*jetskicortexpb.CascadeTrajectorySummary{"c1": exampleSummary()}
	whole := state(t, one)
	raw, err := decodeBase64(whole)
	if err != nil {
		t.Fatal(err)
	}
	row := func(value string) []byte {
		return base(encode(t, &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{"c1": {Value: value}}}))
	}
	summary := func(fields ...byte) []byte { return row(string(base(fields))) }
	legacy := func(fields ...[]byte) []byte { return base(slices.Concat(fields...)) }
	field := func(n protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), data)
	}
	old := field(1, encode(t, &jetskicortexpb.CascadeTrajectorySummaries{Summaries: one}))
	const missing = "\n! last_modified_time is missing"
	for _, test := range []struct {
		name   string
		values map[string][]byte
		want   string
	}{
		{"whole", map[string][]byte{summariesKey: whole}, "c1" + exampleText},
		{"without padding, with space", map[string][]byte{summariesKey: []byte(" " + strings.TrimRight(string(whole), "=") + "\n")}, "c1" + exampleText},
		{"no conversations", map[string][]byte{summariesKey: {}}, ""},
		{"nothing", nil, "! it has no list of conversations"},
		{"too large", map[string][]byte{summariesKey: nil}, "! its list of conversations is too large"},
		{"not base64", map[string][]byte{summariesKey: []byte("{}")}, "! its list of conversations: it is not base64"},
		{"no message", map[string][]byte{summariesKey: base([]byte{0xff})}, "! the topic cannot be read completely: it is cut off, or no message"},
		{"cut off", map[string][]byte{summariesKey: base(raw[:len(raw)-20])}, "! the topic cannot be read completely: it is cut off, or no message"},
		{"the second is cut off", map[string][]byte{summariesKey: base(append(slices.Clone(raw), raw[:len(raw)-20]...))},
			"c1" + exampleText + "\n! the topic cannot be read completely: it is cut off, or no message"},
		{"a row that is not base64", map[string][]byte{summariesKey: row("%")}, "! the value of a row is not base64"},
		{"a row without a value", map[string][]byte{summariesKey: base(encode(t, &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{"c1": {ETag: 2}}}))}, "! a row has no value"},
		{"an entry without a key", map[string][]byte{summariesKey: base(encode(t, &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{"": {Value: "CgJoaQ=="}}}))},
			"! last_modified_time is missing\n! a conversation without an ID"},
		{"the map has another type", map[string][]byte{summariesKey: base([]byte{0x08, 0x01})}, "! an entry of the topic has another type: 0 instead of 2"},
		{"an empty summary", map[string][]byte{summariesKey: row("")}, "! a row has no value"},
		{"a summary that is cut off", map[string][]byte{summariesKey: summary(0x0a, 0x02, 'h', 'i', 0x10)}, "c1 title=hi steps=0\n! a summary cannot be read completely: it is cut off, or no message" + missing},
		{"unknown fields", map[string][]byte{summariesKey: summary(0x0a, 0x02, 'h', 'i', 0xfa, 0x07, 0x01, 0x00, 0xf8, 0x07, 0x01)}, "c1 title=hi steps=0" + missing},
		{"other types", map[string][]byte{summariesKey: summary(0x08, 1, 0x12, 0, 0x18, 1, 0x20, 1, 0x2a, 0, 0x38, 1, 0x40, 1, 0x48, 1, 0x50, 1, 0x78, 1, 0x82, 0x01, 0)},
			"c1\n! summary has another type: 0 instead of 2\n! step_count has another type: 2 instead of 0\n! last_modified_time has another type: 0 instead of 2\n! trajectory_id has another type: 0 instead of 2\n! status has another type: 2 instead of 0\n! created_time has another type: 0 instead of 2\n! waiting_steps has another type: 0 instead of 2\n! workspaces has another type: 0 instead of 2\n! last_user_input_time has another type: 0 instead of 2\n! annotations has another type: 0 instead of 2\n! last_user_input_step_index has another type: 2 instead of 0" + missing},
		{"no UTF-8, no time, no count", map[string][]byte{summariesKey: summary(0x0a, 1, 0xff, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x1a, 2, 0x08, 1)},
			"c1 title=\uFFFD\n! summary is not UTF-8\n! step_count is not a count\n! last_modified_time is not a time" + missing},
		{"older", map[string][]byte{legacyKey: legacy(old, field(2, []byte("ada@example.com")), field(6, []byte("secret")))}, "c1" + exampleText},
		{"older, and newer", map[string][]byte{legacyKey: legacy(old), summariesKey: {}}, ""},
		{"older, with a user in place of the list", map[string][]byte{legacyKey: legacy(field(1, []byte("1234")), field(2, []byte("ada@example.com")))},
			"! the list of an older version cannot be read completely: it is cut off, or no message"},
		{"older, without a list", map[string][]byte{legacyKey: legacy(field(2, []byte("ada@example.com")))}, "! the state of an older version has no conversations"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := decodeState(test.values)
			if got := describe(l); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			for _, secret := range []string{"ada@", "secret"} {
				if strings.Contains(fmt.Sprintf("%+v", l), secret) {
					t.Errorf("%q is kept", secret)
				}
			}
		})
	}
}

// TestGoldenBytes reads the published bytes of an update of the topic, whose applied_update has the form of an entry of the map, and
// those of a topic with a row of another kind.
func TestGoldenBytes(t *testing.T) {
	update := unhex(t, "0a270a137472616a6563746f727953756d6d61726965732a100a026331120a0a0843674a6f61513d3d")
	entry := update[len(update)-16:]
	topic := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
	if got, want := describe(decodeState(map[string][]byte{summariesKey: base(topic)})), "c1 title=hi steps=0\n! last_modified_time is missing"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	token := unhex(t, "0a3f0a196f61757468546f6b656e496e666f53656e74696e656c4b657912220a2043674a4256424947516d5668636d567947674a5356434947434943756d615150")
	l := decodeState(map[string][]byte{summariesKey: base(token)})
	if got := fmt.Sprintf("%+v", l); strings.Contains(got, "RT") || len(l.Degraded) == 0 {
		t.Errorf("a row with a token: %s", got)
	}
}

// What is encoded is decoded, whatever unknown fields are between.
func TestStatesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &jetskicortexpb.CascadeTrajectorySummary{
			Summary: rapid.String().Draw(rt, "summary"), StepCount: rapid.Uint32Range(0, 1<<31-1).Draw(rt, "steps"),
			LastModifiedTime: timestamppb.New(time.Unix(rapid.Int64Range(1e9, 4e9).Draw(rt, "modified"), 0)), TrajectoryId: rapid.String().Draw(rt, "trajectory"),
			Status: cortexpb.CascadeRunStatus(rapid.IntRange(0, 9).Draw(rt, "status")),
		}
		for range rapid.IntRange(0, 3).Draw(rt, "workspaces") {
			s.Workspaces = append(s.Workspaces, &cortexpb.CortexWorkspaceMetadata{WorkspaceFolderAbsoluteUri: "/" + rapid.String().Draw(rt, "workspace")})
		}
		var unknown []byte
		for range rapid.IntRange(0, 3).Draw(rt, "unknown") {
			number := protowire.Number(rapid.IntRange(17, 1000).Draw(rt, "number"))
			unknown = protowire.AppendBytes(protowire.AppendTag(unknown, number, protowire.BytesType), rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes"))
		}
		s.ProtoReflect().SetUnknown(unknown)
		l := decodeState(map[string][]byte{summariesKey: state(t, map[string]*jetskicortexpb.CascadeTrajectorySummary{"c": s})})
		if len(l.Conversations) != 1 || len(l.Degraded) != 0 {
			rt.Fatalf("got %+v", l)
		}
		got := l.Conversations[0]
		if got.Title != s.Summary || got.Steps != int(s.StepCount) || !got.Modified.Equal(s.LastModifiedTime.AsTime()) || got.TrajectoryID != s.TrajectoryId ||
			got.Status != s.Status || len(got.Workspaces) != len(s.Workspaces) {
			rt.Errorf("got %+v of %v", got, s)
		}
	})
}

// checkListing holds what callers rely on, whatever was decoded.
func checkListing(t *testing.T, l Listing) {
	t.Helper()
	if len(l.Degraded) > maxReported || len(l.Conversations) > maxConversations {
		t.Errorf("%d differences, %d conversations", len(l.Degraded), len(l.Conversations))
	}
	for _, c := range l.Conversations {
		if !plausibleID(c.ID) || c.Steps < -1 || c.InputStep < -1 || !c.Modified.IsZero() && !plausibleTime(c.Modified) {
			t.Errorf("got %+v", c)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"trajectorySummaries":{"c1":{"summary":"s","stepCount":3,"lastModifiedTime":"` + day + `","workspaces":[{"workspaceFolderAbsoluteUri":"file:///w"}]}}}`))
	f.Add([]byte(`{"trajectorySummaries":[{"cascadeId":"c1","lastModifiedTime":{"seconds":"1","nanos":2},"annotations":{"title":1}}]}`))
	f.Add([]byte(`"{\"recentTrajectories\":[{\"googleAgentId\":\"c1\",\"lastStepIndex\":-1,\"lastModifiedTime\":1794834000}]}"`))
	f.Add([]byte(`{"conversations":[{"id":"c1","workspace":"file://%zz","status":"waiting","waitingSteps":[1]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, decode := range []func([]byte) (Listing, error){decodeAll, decodeRecent} {
			l, err := decode(data)
			if err != nil && len(l.Conversations) > 0 {
				t.Errorf("%v, and %+v", err, l)
			}
			checkListing(t, l)
		}
	})
}

func FuzzState(f *testing.F) {
	whole := encode(f, &unifiedstatesyncpb.Topic{Data: map[string]*unifiedstatesyncpb.Row{"c1": {Value: string(base(encode(f, exampleSummary())))}}})
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add(encode(f, exampleSummary()))
	f.Add([]byte{0x0b, 0x0b, 0x0c})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, key := range []string{summariesKey, legacyKey} {
			checkListing(t, decodeState(map[string][]byte{key: base(data)}))
			checkListing(t, decodeState(map[string][]byte{key: data}))
		}
		var r wireReader
		r.summary("c", data)
	})
}
