package prooftests

import (
	"net/http"
	"strings"
	"testing"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// What real clients send is acceptable to the Antigravity gateway, too, and without a second
// attempt: for that gateway every request is prepared, also those in its own dialect.
func TestCapturedRequestsBreakNoRuleOfTheGateway(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	g := daemontest.StartAntigravity(t, "keep_thinking: true")
	replayed, refused := 0, 0
	for _, r := range replays(t) {
		if r.embeds() {
			continue // it makes no vectors
		}
		for _, model := range []string{r.model, "gpt-oss-120b-medium"} {
			if model != r.model && r.model != "gemini-3-flash" {
				continue
			}
			t.Run(r.scenario+"/"+r.Name+"/"+model, func(t *testing.T) {
				before := len(g.Violations())
				status, answer := r.send(t, g.Gateway, model)
				replayed++
				if reason := refusals[r.scenario+"/"+r.Name+"/*"]; reason != "" {
					refused++
					if status != http.StatusBadRequest || !strings.Contains(answer, reason) {
						t.Errorf("want a refusal with %s, got %d: %s", reason, status, clipped(answer))
					}
					return
				}
				if bad := g.Violations()[before:]; status != http.StatusOK || len(bad) > 0 {
					t.Errorf("status %d, violations %v: %s", status, bad, clipped(answer))
				}
				if r.streams() && strings.Contains(answer, `"error":{`) {
					t.Errorf("the stream broke: %s", clipped(answer))
				}
			})
		}
	}
	t.Logf("%d requests replayed, %d of them refused as they must be", replayed, refused)
	if replayed < 330 || refused < len(refusals) {
		t.Errorf("only %d requests were replayed, and %d refused", replayed, refused)
	}
}
