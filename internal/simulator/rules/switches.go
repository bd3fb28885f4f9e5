package rules

// Switches decide behaviour on which observers of the provider disagree.
type Switches struct {
	// Requests.

	AcceptThinkingLevel           bool   `json:"accept_thinking_level"`            // the private gateway knows thinkingLevel
	FunctionResponseRole          string `json:"function_response_role"`           // user, model or any
	RejectDuplicateSpelling       bool   `json:"reject_duplicate_spelling"`        // camelCase and snake_case of one field in one object
	SentinelOnAllCallsOK          bool   `json:"sentinel_on_all_calls_ok"`         // not only on the first call of a content
	ClaudeAcceptsSentinelThinking bool   `json:"claude_accepts_sentinel_thinking"` // instead of a thinking block's signature
	UnionsInSchema                string `json:"unions_in_schema"`                 // accept (and look inside), ignore or reject
	SafetySettingsOK              bool   `json:"safety_settings_ok"`               // the private gateway knows safetySettings
	BudgetMinusOneOK              bool   `json:"budget_minus_one_ok"`              // thinkingBudget -1 on the private gateway
	RequestCacheControlOK         bool   `json:"request_cache_control_ok"`         // cache_control beside contents

	// The rest of the provider; no rule of this package looks at them.

	UsageCandidatesIncludeThoughts bool   `json:"usage_candidates_include_thoughts"`
	GoogleUserProjectHeader        string `json:"google_user_project_header"` // ok or 403
	ProjectMissingQuotaFull        bool   `json:"project_missing_quota_full"`
	MinVersionError                string `json:"min_version_error"` // 404 or message
}

// DefaultSwitches follows the newest observer where they disagree, and the stricter reading where none is newest.
func DefaultSwitches() Switches {
	return Switches{
		AcceptThinkingLevel:     true,
		FunctionResponseRole:    "any",
		UnionsInSchema:          "reject",
		SafetySettingsOK:        true,
		BudgetMinusOneOK:        true,
		GoogleUserProjectHeader: "403",
		ProjectMissingQuotaFull: true,
		MinVersionError:         "404",
	}
}
