package rules

import (
	"fmt"
	"reflect"
	"strings"
)

// Switches decide behaviour on which observers of the provider disagree, or that none has seen. The tags say what a switch
// does and, of those that are no booleans, which values it has: they are what SwitchList shows.
type Switches struct {
	// Requests.

	AcceptThinkingLevel           bool   `json:"accept_thinking_level" about:"the private gateway knows thinkingLevel"`
	FunctionResponseRole          string `json:"function_response_role" values:"user,model,any" about:"the role of a content with function responses"`
	RejectDuplicateSpelling       bool   `json:"reject_duplicate_spelling" about:"camelCase and snake_case of one field in one object are refused"`
	SentinelOnAllCallsOK          bool   `json:"sentinel_on_all_calls_ok" about:"the signature that skips validation may stand on every call of a content, not only on the first"`
	ClaudeAcceptsSentinelThinking bool   `json:"claude_accepts_sentinel_thinking" about:"it may also stand instead of the signature of a thinking block"`
	TurnContinuesWith             string `json:"turn_continues_with" values:"media,anything,nothing" about:"what may stand beside function responses without ending the model's turn"`
	UnionsInSchema                string `json:"unions_in_schema" values:"accept,ignore,reject" about:"anyOf, oneOf and allOf in the schema of a function on the private gateway; accept looks inside"`
	SafetySettingsOK              bool   `json:"safety_settings_ok" about:"the private gateway knows safetySettings"`
	BudgetMinusOneOK              bool   `json:"budget_minus_one_ok" about:"the private gateway takes thinkingBudget -1"`
	RequestCacheControlOK         bool   `json:"request_cache_control_ok" about:"cache_control may stand beside contents"`
	SamplingRanges                bool   `json:"sampling_ranges" about:"the private gateway refuses, as the official API does, temperature, topP and topK out of range and more than 5 stop sequences"`

	BudgetBelowMax bool `json:"budget_below_max" about:"the private gateway refuses a thinking budget of its own models that is not below maxOutputTokens, as it does for Claude"`
	ResponseNames  bool `json:"response_names" about:"a function response has to name the function that was called; otherwise its id, number and place will do"`

	// The rest of the provider; no rule of this package looks at them.

	UsageCandidatesIncludeThoughts bool   `json:"usage_candidates_include_thoughts" about:"candidatesTokenCount counts thoughts, too"`
	GoogleUserProjectHeader        string `json:"google_user_project_header" values:"ok,403" about:"what x-goog-user-project with a project that is not the account's own leads to"`
	ProjectMissingQuotaFull        bool   `json:"project_missing_quota_full" about:"without a project every quota is reported as full"`
	MinVersionError                string `json:"min_version_error" values:"404,message" about:"how a client that is too old is refused"`
}

// DefaultSwitches follows the newest observer where they disagree, and the stricter reading where none is newest. What
// nobody has seen refused is not.
func DefaultSwitches() Switches {
	return Switches{
		AcceptThinkingLevel:     true,
		FunctionResponseRole:    "any",
		TurnContinuesWith:       "media",
		UnionsInSchema:          "reject",
		SafetySettingsOK:        true,
		BudgetMinusOneOK:        true,
		GoogleUserProjectHeader: "403",
		ProjectMissingQuotaFull: true,
		MinVersionError:         "404",
	}
}

// StrictSwitches refuse what some observers send every day and others have seen refused. Our own requests are held
// against them.
func StrictSwitches() Switches {
	s := DefaultSwitches()
	s.BudgetBelowMax, s.ResponseNames = true, true
	return s
}

// A Switch is one of the Switches, for who reads about them.
type Switch struct {
	Name, About string
	Values      []string
	Default     string
}

// SwitchList lists all switches in the order of Switches.
func SwitchList() []Switch {
	initial := reflect.ValueOf(DefaultSwitches())
	var list []Switch
	for f := range reflect.TypeFor[Switches]().Fields() {
		values := []string{"true", "false"}
		if f.Type.Kind() == reflect.String {
			values = strings.Split(f.Tag.Get("values"), ",")
		}
		list = append(list, Switch{f.Tag.Get("json"), f.Tag.Get("about"), values, fmt.Sprint(initial.FieldByIndex(f.Index))})
	}
	return list
}
