package antigravity

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/simulator"
)

// Each request is a try on record, with its endpoint and its own error, also where the client gets
// that of another one.
func TestEachRequestIsATry(t *testing.T) {
	at := func(host, do string) simulator.Fault {
		return simulator.Fault{When: simulator.When{Path: "streamGenerateContent", Host: host}, Do: do}
	}
	once := func(f simulator.Fault) simulator.Fault {
		f.Times = 1
		return f
	}
	for name, test := range map[string]struct {
		faults []simulator.Fault
		want   string
	}{
		"the first answers": {nil, "daily answered"},
		"the third answers": {[]simulator.Fault{at("daily", "unavailable_503"), at("autopush", "reset")},
			"daily unavailable: the provider is unavailable, autopush unavailable: upstream gravity cannot be reached, prod answered"},
		"none answers": {[]simulator.Fault{at("daily", "unavailable_503"), at("autopush", "reset"), at("prod", "capacity")},
			"daily unavailable: the provider is unavailable, autopush unavailable: upstream gravity cannot be reached, prod capacity: the provider has no capacity"},
		"a new token": {[]simulator.Fault{once(at("", "unauthorized"))},
			"daily unauthenticated: the provider does not accept the access token, daily answered"},
		"an empty answer": {[]simulator.Fault{once(at("", "empty_200"))},
			"daily unavailable: the provider sent an answer without anything, daily answered"},
		"a limit": {[]simulator.Fault{at("", "quota_exhausted")}, "daily exhausted: the account has used up its quota"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, test.faults...)
			req := prompt(t, "gemini-3-flash", user("[[text: hello]]"))
			req.Log = &perigee.CallLog{}
			_ = r.hear(req)
			var got []string
			for _, a := range req.Log.Attempts() {
				host := strings.TrimSuffix(strings.TrimPrefix(a.Endpoint, "https://"), ".example")
				if a.Class == "" && a.Error == "" {
					got = append(got, host+" answered")
				} else {
					got = append(got, fmt.Sprintf("%s %s: %s", host, a.Class, a.Error))
				}
				if a.Account != "ada@example.com" || a.Upstream != "gravity" {
					t.Errorf("%+v", a)
				}
			}
			want := strings.Split(test.want, ", ")
			if len(got) != len(want) {
				t.Fatalf("on record is %q, want %q", got, want)
			}
			for i := range want {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("try %d is %q, want %q", i+1, got[i], want[i])
				}
			}
		})
	}
}
