package antigravity

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A recorded request is sent again with the project and the token of the account that is leased
// now.
func TestRecordedRequestsGetFreshCredentials(t *testing.T) {
	r := newRig(t, nil)
	var tap bodies
	req := prompt(t, "gemini-3-flash", user("hello"))
	req.Log.SetTap(&tap)
	r.hear(req)
	var again bodies
	raw := &perigee.RawRequest{Operation: perigee.OperationGenerate, Model: "gemini-3-flash"}
	raw.Log = &perigee.CallLog{}
	raw.Log.SetTap(&again)
	project := tap.requests[0][:strings.Index(tap.requests[0], `,"model"`)]
	raw.Sent = []byte(strings.Replace(tap.requests[0], project, `{"project":"of-another-account"`, 1))
	send := func() (answer string, err error) {
		err = r.SendRaw(t.Context(), raw, func(a perigee.RawAnswer) error {
			body, err := io.ReadAll(a.Body)
			answer = fmt.Sprintf("%d %s %s", a.Status, a.Account, body)
			return err
		})
		return answer, err
	}
	answer, err := send()
	if err != nil || !strings.HasPrefix(answer, "200 ") || !strings.Contains(answer, "@") || !strings.Contains(answer, `data: {"response"`) {
		t.Errorf("%s, %v", answer, err)
	}
	if len(again.requests) != 1 || again.requests[0] != tap.requests[0] {
		t.Errorf("sent %q\nwas  %q", again.requests, tap.requests)
	}
	raw.Sent = []byte(`{"project":"x","model":"gemini-3-flash","request":{"contents":[]}}`)
	if answer, err := send(); err != nil || !strings.HasPrefix(answer, "400 ") {
		t.Errorf("a refused request: %s, %v", answer, err)
	}
	if want := []providererr.Kind{"", "", providererr.KindEmptyContent}; !slices.Equal(r.fakePool.diagnoses, want) {
		t.Errorf("the leases ended with %q", r.fakePool.diagnoses)
	}
	raw.Operation = perigee.OperationCount
	if _, err := send(); perigee.AsError(err).Class != perigee.ClassUnimplemented {
		t.Errorf("a count: %v", err)
	}
}
