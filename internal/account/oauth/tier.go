package oauth

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// assistance is the answer of loadCodeAssist about an account.
type assistance struct {
	Project     projectID    `json:"cloudaicompanionProject"`
	ProjectID   projectID    `json:"projectId"` // two names that were seen in its place
	Project2    projectID    `json:"project"`
	CurrentTier *tier        `json:"currentTier"`
	PaidTier    *tier        `json:"paidTier"`
	Allowed     []tier       `json:"allowedTiers"`
	Ineligible  []ineligible `json:"ineligibleTiers"`
}

type tier struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Default bool   `json:"isDefault"`
	// OwnProject reports that the tier requires a project that the user has created.
	OwnProject bool `json:"userDefinedCloudaicompanionProject"`
}

// ineligible is a tier that the account cannot have, and why.
type ineligible struct {
	ReasonCode    string `json:"reasonCode"`
	ReasonMessage string `json:"reasonMessage"`
	ValidationURL string `json:"validationUrl"`
}

// projectID is written as a string or as an object with an id.
type projectID string

func (p *projectID) UnmarshalJSON(data []byte) error {
	var object struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(data, (*string)(p)) != nil && json.Unmarshal(data, &object) == nil {
		*p = projectID(object.ID)
	}
	return nil // anything else is not a project
}

func (a *assistance) project() string {
	return strings.TrimSpace(string(cmp.Or(a.Project, a.ProjectID, a.Project2)))
}

// withTier returns the project with the tier of the account: the paid tier if it has one.
func (a *assistance) withTier(id string) Project {
	p := Project{ID: id}
	for _, t := range []*tier{a.PaidTier, a.CurrentTier} {
		if t != nil && t.ID != "" {
			p.Tier, p.TierName = t.ID, t.Name
			break
		}
	}
	return p
}

const freeTier = "free-tier"

// choose picks the tier to onboard to: the provider's default, else its first, else the account's
// current tier. A tier that requires the user's own project is not chosen. The ids of paid tiers
// are not for onboarding.
func (a *assistance) choose(now time.Time) (tier, error) {
	usable := slices.DeleteFunc(slices.Clone(a.Allowed), func(t tier) bool { return t.ID == "" || t.OwnProject })
	if i := slices.IndexFunc(usable, func(t tier) bool { return t.Default }); i >= 0 {
		return usable[i], nil
	}
	switch {
	case len(usable) > 0:
		return usable[0], nil
	case len(a.Allowed) > 0:
		return tier{}, perigee.Errorf(perigee.ClassForbidden, "the provider wants a Google Cloud project of your own for this account").
			WithHint("make one, enable the Gemini for Google Cloud API in it, and give its id as project_id of the account")
	case len(a.Ineligible) > 0:
		return tier{}, a.Ineligible[0].refusal(now)
	case a.CurrentTier != nil && a.CurrentTier.ID != "":
		return *a.CurrentTier, nil
	}
	return tier{ID: freeTier}, nil
}

// refusal classifies an ineligibility like an error with the same reason.
func (i ineligible) refusal(now time.Time) error {
	message := "this account is not eligible for Antigravity"
	if words := cmp.Or(i.ReasonMessage, i.ReasonCode); words != "" {
		message += ": " + words
	}
	reason := i.ReasonCode
	if i.ValidationURL != "" {
		reason = "VALIDATION_REQUIRED"
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": http.StatusForbidden, "status": "PERMISSION_DENIED", "message": message,
		"details": []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
			"metadata": map[string]string{"validation_url": i.ValidationURL}}},
	}})
	if err != nil {
		panic("oauth: " + err.Error()) // strings can always be encoded
	}
	return &Refusal{providererr.Classify(http.StatusForbidden, nil, body, now)}
}
