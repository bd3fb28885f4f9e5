package responses

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee"
)

// A reference is a few bytes and what it stands for is not, so a request brings each stored item
// back once.
func TestReferencesDoNotMultiply(t *testing.T) {
	stored := &perigee.StoredResponse{Input: json.RawMessage(`[{"id":"msg_r1_i0","type":"message","role":"user","content":"hello"}]`), Output: json.RawMessage(`[]`)}
	find := func(string) (*perigee.StoredResponse, error) { return stored, nil }
	reference := `{"type":"item_reference","id":"msg_r1_i0"}`
	for body, want := range map[string]string{
		`{"model":"m","input":[` + reference + `,{"role":"user","content":"on"}]}`:                "",
		`{"model":"m","input":[` + reference + `,` + reference + `]}`:                             "referenced twice",
		`{"model":"m","previous_response_id":"resp_r1","input":[{"role":"user","content":"on"}]}`: "",
	} {
		_, err := DecodeRequest(perigee.Origin{Body: []byte(body)}, find)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", body, err, want)
		}
	}
	stored.Input = json.RawMessage(`[{"id":"msg_r1_i0","type":"message","role":"user","content":"` + strings.Repeat("x", maxRecalled) + `"}]`)
	for _, body := range []string{`{"model":"m","input":[` + reference + `]}`, `{"model":"m","previous_response_id":"resp_r1","input":"on"}`} {
		_, err := DecodeRequest(perigee.Origin{Body: []byte(body)}, find)
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || e.Status != 413 {
			t.Errorf("%s: %v", body, err)
		}
	}
}
