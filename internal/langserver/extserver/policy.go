package extserver

import (
	"encoding/base64"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	common "perigee/gen/exa/codeium_common_pb"
	lspb "perigee/gen/exa/language_server_pb"
	uss "perigee/gen/exa/unified_state_sync_pb"
)

// A rowName is a topic and a key in it.
type rowName struct{ topic, key string }

// tokenRow has the access token.
var tokenRow = rowName{"uss-oauth", "oauthTokenInfoSentinelKey"}

// Policies are the settings that the user of a language server chooses. The zero value is the
// strictest.
type Policies struct {
	Terminal Terminal // when the agent requests permission to run a command
	Browser  bool     // it may use a browser; scripts in pages need approval
	AllFiles bool     // it may read files outside of the workspace, and files that git ignores
}

// A Terminal is a policy for when the agent requests permission to run a command.
type Terminal int

// When the agent requests permission.
const (
	AlwaysAsk Terminal = iota
	MayAsk             // if it does not consider the command safe
	NeverAsk
)

// policy returns the settings that the language server reads, as row values: with the strictest
// policies it runs no command without approval, reads nothing outside of its workspace and nothing
// that git ignores, and uses no browser. It never continues or repairs on its own. In secure mode
// it would ignore looser policies, so that is on only with the strictest.
//
// The names of the rows of uss-agentPreferences are known. The names for the browser, the tab and
// the project are not published; they follow the same scheme, the name of the setting and
// SentinelKey. A language server that uses another name falls back to its default for that
// setting.
func policy(p Policies) map[rowName]string {
	terminal := map[Terminal]common.CascadeCommandsAutoExecution{
		AlwaysAsk: common.CascadeCommandsAutoExecution_CASCADE_COMMANDS_AUTO_EXECUTION_OFF,
		MayAsk:    common.CascadeCommandsAutoExecution_CASCADE_COMMANDS_AUTO_EXECUTION_AUTO,
		NeverAsk:  common.CascadeCommandsAutoExecution_CASCADE_COMMANDS_AUTO_EXECUTION_EAGER,
	}[p.Terminal]
	tools, scripts := common.AgentBrowserTools_AGENT_BROWSER_TOOLS_DISABLED, common.BrowserJsExecutionPolicy_BROWSER_JS_EXECUTION_POLICY_DISABLED
	if p.Browser {
		tools, scripts = common.AgentBrowserTools_AGENT_BROWSER_TOOLS_ENABLED, common.BrowserJsExecutionPolicy_BROWSER_JS_EXECUTION_POLICY_ALWAYS_ASK
	}
	values := map[rowName][]byte{
		{"uss-enterprisePreferences", "enterprisePreferencesSentinelKey"}: nil,
		{"uss-enterprisePreferences", "gcpProjectIdSentinelKey"}:          encode(&uss.Primitive{Value: &uss.Primitive_StringValue{}}),
		{"uss-tabPreferences", "tabGitignoreAccessSentinelKey"}:           yes(false),

		{"uss-browserPreferences", "browserToolsSentinelKey"}:             encode(&uss.BrowserToolsConfig{AgentBrowserTools: tools}),
		{"uss-browserPreferences", "browserAllowlistSentinelKey"}:         list(),
		{"uss-browserPreferences", "browserJsExecutionPolicySentinelKey"}: encode(&uss.BrowserJavascriptExecutionConfig{BrowserJsExecutionPolicy: scripts}),
	}
	for setting, value := range map[string][]byte{
		"secureMode":                            yes(p == Policies{}),
		"terminalAutoExecutionPolicy":           enum(int32(terminal)),
		"terminalAllowedCommands":               list(),
		"terminalDeniedCommands":                list(),
		"allowAgentAccessNonWorkspaceFiles":     yes(p.AllFiles),
		"allowCascadeAccessGitignoreFiles":      yes(p.AllFiles),
		"autoContinueOnMaxGeneratorInvocations": yes(false),
		"disableCascadeAutoFixLints":            yes(true),
	} {
		values[rowName{"uss-agentPreferences", setting + "SentinelKey"}] = value
	}
	rows := make(map[rowName]string, len(values))
	for row, value := range values {
		rows[row] = base64.StdEncoding.EncodeToString(value)
	}
	return rows
}

func yes(value bool) []byte {
	return encode(&uss.Primitive{Value: &uss.Primitive_BoolValue{BoolValue: value}})
}

// list returns an empty list, encoded both as Primitive and as BrowserAllowlistConfig.
func list() []byte {
	return encode(&uss.Primitive{Value: &uss.Primitive_RepeatedStringValue{RepeatedStringValue: &uss.RepeatedString{}}})
}

// enum encodes a value of an enum with a message that is not published: field 1, as in the
// messages of other enums, followed by field 2, as in Primitive, of which the last member counts.
func enum(value int32) []byte {
	var b []byte
	for _, field := range []protowire.Number{1, 2} {
		b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(value))
	}
	return b
}

// tokenValue returns the value of tokenRow. It has no refresh token, which the language server
// would use on its own.
func tokenValue(token Token) string {
	info := &lspb.OAuthTokenInfo{AccessToken: token.Access.Reveal(), TokenType: "Bearer"}
	if !token.Expiry.IsZero() {
		info.Expiry = timestamppb.New(token.Expiry)
	}
	return base64.StdEncoding.EncodeToString(encode(info))
}

// encode cannot fail: all texts of these messages are valid UTF-8, or the row would be of no use.
func encode(m proto.Message) []byte {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return b
}
