package rules

import (
	"fmt"
	"reflect"
	"strings"
)

// Switches decide behaviour for which observations of the provider disagree or are missing. The
// tags describe each switch and the values of switches that are not booleans; SwitchList shows
// them.
type Switches struct {
	// Requests.

	AcceptThinkingLevel           bool   `json:"accept_thinking_level" about:"the private gateway accepts thinkingLevel"`
	FunctionResponseRole          string `json:"function_response_role" values:"user,model,any" about:"the required role of a content with function responses"`
	RejectDuplicateSpelling       bool   `json:"reject_duplicate_spelling" about:"a field in both camelCase and snake_case is rejected"`
	SentinelOnAllCallsOK          bool   `json:"sentinel_on_all_calls_ok" about:"the signature that skips validation is accepted on every call of a content, not only on the first"`
	ClaudeAcceptsSentinelThinking bool   `json:"claude_accepts_sentinel_thinking" about:"that signature is also accepted on a thinking block"`
	TurnContinuesWith             string `json:"turn_continues_with" values:"media,anything,nothing" about:"what may accompany function responses without ending the model's turn"`
	UnionsInSchema                string `json:"unions_in_schema" values:"accept,ignore,reject" about:"how the private gateway treats anyOf, oneOf and allOf in the schema of a function; accept checks their content"`
	SafetySettingsOK              bool   `json:"safety_settings_ok" about:"the private gateway accepts safetySettings"`
	BudgetMinusOneOK              bool   `json:"budget_minus_one_ok" about:"the private gateway accepts thinkingBudget -1"`
	RequestCacheControlOK         bool   `json:"request_cache_control_ok" about:"cache_control is accepted next to contents"`
	SamplingRanges                bool   `json:"sampling_ranges" about:"like the official API, the private gateway rejects temperature, topP and topK out of range, and more than 5 stop sequences"`

	BudgetBelowMax bool `json:"budget_below_max" about:"the private gateway rejects a thinking budget that is not below maxOutputTokens for all models, not only for Claude"`
	ResponseNames  bool `json:"response_names" about:"a function response must name the function that was called; otherwise its ID or position is sufficient"`

	// The rest of the provider; no rule of this package looks at them.

	UsageCandidatesIncludeThoughts bool   `json:"usage_candidates_include_thoughts" about:"candidatesTokenCount includes thoughts"`
	GoogleUserProjectHeader        string `json:"google_user_project_header" values:"ok,403" about:"the response to x-goog-user-project with a project of another account"`
	ProjectMissingQuotaFull        bool   `json:"project_missing_quota_full" about:"without a project, every quota is reported as full"`
	MinVersionError                string `json:"min_version_error" values:"404,message" about:"how a client that is too old is rejected"`
}

// DefaultSwitches follows the newest observer where they disagree, and the stricter reading where
// none is newest. What was never seen refused is accepted.
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

// StrictSwitches refuse every request that has been observed to be refused, even if it works for
// other observers. perigee's own requests are tested with them.
func StrictSwitches() Switches {
	s := DefaultSwitches()
	s.BudgetBelowMax, s.ResponseNames = true, true
	return s
}

// A Switch is one of the Switches, for documentation.
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
