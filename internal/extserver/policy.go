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

// policy has the settings that the language server asks for, as row values: it runs no command without approval, reads nothing
// outside of its workspace and nothing that git ignores, uses no browser, and neither continues nor repairs on its own.
//
// The names of the rows of uss-agentPreferences are known. Those of the browser, the tab and the project are not published;
// they follow the same scheme, the name of the setting and SentinelKey. A language server that uses another name falls back to
// its default for that setting.
func policy() map[rowName]string {
	values := map[rowName][]byte{
		{"uss-enterprisePreferences", "enterprisePreferencesSentinelKey"}: nil,
		{"uss-enterprisePreferences", "gcpProjectIdSentinelKey"}:          encode(&uss.Primitive{Value: &uss.Primitive_StringValue{}}),
		{"uss-tabPreferences", "tabGitignoreAccessSentinelKey"}:           yes(false),

		{"uss-browserPreferences", "browserToolsSentinelKey"}: encode(&uss.BrowserToolsConfig{
			AgentBrowserTools: common.AgentBrowserTools_AGENT_BROWSER_TOOLS_DISABLED}),
		{"uss-browserPreferences", "browserAllowlistSentinelKey"}: list(),
		{"uss-browserPreferences", "browserJsExecutionPolicySentinelKey"}: encode(&uss.BrowserJavascriptExecutionConfig{
			BrowserJsExecutionPolicy: common.BrowserJsExecutionPolicy_BROWSER_JS_EXECUTION_POLICY_DISABLED}),
	}
	for setting, value := range map[string][]byte{
		"secureMode":                            yes(true),
		"terminalAutoExecutionPolicy":           enum(int32(common.CascadeCommandsAutoExecution_CASCADE_COMMANDS_AUTO_EXECUTION_OFF)),
		"terminalAllowedCommands":               list(),
		"terminalDeniedCommands":                list(),
		"allowAgentAccessNonWorkspaceFiles":     yes(false),
		"allowCascadeAccessGitignoreFiles":      yes(false),
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

// list is an empty list, both as Primitive and as BrowserAllowlistConfig.
func list() []byte {
	return encode(&uss.Primitive{Value: &uss.Primitive_RepeatedStringValue{RepeatedStringValue: &uss.RepeatedString{}}})
}

// enum is a value of an enum whose message is not published: field 1, as in the messages of other enums, followed by field 2,
// as in Primitive, of which the last member counts.
func enum(value int32) []byte {
	var b []byte
	for _, field := range []protowire.Number{1, 2} {
		b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(value))
	}
	return b
}

// tokenValue is the value of tokenRow. The language server gets no refresh token: it would use it on its own.
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
