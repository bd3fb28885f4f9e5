package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/simulator"
)

var endpoints = []string{"https://daily.example.com", "https://autopush.example.com/", "https://prod.example.com"}

func (r *rig) discoverer() *Discoverer {
	return NewDiscoverer(DiscoverOptions{Endpoints: endpoints, UserAgent: "antigravity/9.9.9 linux/amd64 perigee/test", Transport: r.options.Transport})
}

// hosts are those that were asked for a method, in order.
func (r *rig) hosts(method string) (hosts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.sent {
		if strings.HasSuffix(u.Path, ":"+method) {
			host, _, _ := strings.Cut(u.Host, ".")
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func TestDiscover(t *testing.T) {
	tests := []struct {
		account simulator.Account
		want    Project
		polls   []int
	}{
		{simulator.Account{Email: "free@example.com", Project: "p", Tier: "free-tier"},
			Project{ID: "p", Tier: "free-tier", TierName: "Antigravity"}, nil},
		{simulator.Account{Email: "paid@example.com", Project: "p", Tier: "g1-pro-tier", ProjectAsObject: true},
			Project{ID: "p", Tier: "g1-pro-tier", TierName: "Google AI Pro"}, nil},
		{simulator.Account{Email: "new@example.com", Project: "p", NotOnboarded: true, OnboardPolls: 3},
			Project{ID: "p", Tier: "free-tier", TierName: "Antigravity"}, []int{1, 2, 3, 4}},
	}
	for _, test := range tests {
		t.Run(test.account.Email, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.account.RefreshToken = "sim-refresh"
				r := newRig(t, simulator.Script{Accounts: []simulator.Account{test.account}})
				var polls []int
				got, err := r.discoverer().Discover(t.Context(), r.access("sim-refresh"), func(poll, _ int) { polls = append(polls, poll) })
				if err != nil || got != test.want {
					t.Errorf("got %+v, %v, want %+v", got, err, test.want)
				}
				if !slices.Equal(polls, test.polls) {
					t.Errorf("polls %v, want %v", polls, test.polls)
				}
				for _, call := range r.provider.Calls() {
					if strings.HasPrefix(call.Path, "/v1internal") && (call.Host != "prod.example.com" || !strings.HasSuffix(call.UserAgent, "perigee/test")) {
						t.Errorf("%s was asked as %s", call.Host, call.UserAgent)
					}
				}
			})
		})
	}
}

func TestDiscoverGivesUpOnboarding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simulator.Script{Accounts: []simulator.Account{{Email: "new@example.com", RefreshToken: "sim-refresh", NotOnboarded: true, OnboardPolls: 99}}})
		start := time.Now()
		_, err := r.discoverer().Discover(t.Context(), r.access("sim-refresh"), nil)
		wantClass(t, err, perigee.ClassUnavailable)
		if took := time.Since(start); took != 45*time.Second || r.asked(":onboardUser") != 10 {
			t.Errorf("it took %v and %d calls", took, r.asked(":onboardUser"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		if _, err := r.discoverer().Discover(ctx, r.access("sim-refresh"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDiscoverGoesOnToTheNextEndpoint(t *testing.T) {
	tests := []struct {
		fault string
		hosts []string
		class perigee.Class // empty means it works
	}{
		{"internal_500", []string{"prod", "autopush"}, ""},
		{"unavailable_503", []string{"prod", "autopush"}, ""},
		{"bad_gateway_html", []string{"prod", "autopush"}, ""},
		{"reset", []string{"prod", "autopush"}, ""},
		{"hang", []string{"prod", "autopush"}, ""},
		{"forbidden", []string{"prod", "autopush"}, ""},
		{"unauthorized", []string{"prod"}, perigee.ClassUnauthenticated},
		{"banned", []string{"prod"}, perigee.ClassForbidden},
		{"validation_required", []string{"prod"}, perigee.ClassVerification},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simulator.Script{})
				r.faults(simulator.Fault{When: simulator.When{Host: "prod"}, Do: test.fault})
				got, err := r.discoverer().Discover(t.Context(), r.access("sim-refresh-ada"), nil)
				if test.class != "" {
					wantClass(t, err, test.class)
				} else if err != nil || got.ID != "sim-project-ada" {
					t.Errorf("got %+v, %v", got, err)
				}
				if hosts := r.hosts("loadCodeAssist"); !slices.Equal(hosts, test.hosts) {
					t.Errorf("asked %v, want %v", hosts, test.hosts)
				}
			})
		})
	}
	t.Run("none left", func(t *testing.T) {
		r := newRig(t, simulator.Script{})
		r.fault("loadCodeAssist", "unavailable_503", 0)
		_, err := r.discoverer().Discover(t.Context(), r.access("sim-refresh-ada"), nil)
		wantClass(t, err, perigee.ClassUnavailable)
		if hosts := r.hosts("loadCodeAssist"); !slices.Equal(hosts, []string{"prod", "autopush", "daily"}) {
			t.Errorf("asked %v", hosts)
		}
	})
	t.Run("none configured", func(t *testing.T) {
		_, err := NewDiscoverer(DiscoverOptions{}).Discover(t.Context(), perigee.NewSecret("x"), nil)
		wantClass(t, err, perigee.ClassInvalid)
	})
}

func TestDiscoverRefusals(t *testing.T) {
	r := newRig(t, simulator.Script{})
	r.fault("loadCodeAssist", "validation_required", 1)
	_, err := r.discoverer().Discover(t.Context(), r.access("sim-refresh-ada"), nil)
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || !strings.HasPrefix(refusal.Link, "https://accounts.google.com/signin/continue") {
		t.Errorf("no link in %v", err)
	}
	if state := StateOf(err); state != perigee.AccountVerification {
		t.Errorf("state %q, error %v", state, err)
	}
	r.fault("loadCodeAssist", "banned", 1)
	_, err = r.discoverer().Discover(t.Context(), r.access("sim-refresh-ada"), nil)
	if state := StateOf(err); state != perigee.AccountBanned {
		t.Errorf("state %q of %v", state, err)
	}
}

// scripted answers loadCodeAssist and onboardUser from a script and keeps what was asked.
type scripted struct {
	load, onboard []string // the last one is repeated
	asked         []string
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	answers := &s.load
	if strings.HasSuffix(req.URL.Path, ":onboardUser") {
		answers = &s.onboard
		s.asked = append(s.asked, string(body))
	}
	answer := (*answers)[0]
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), Request: req}, nil
}

// TestTiers gives answers that the simulator never gives.
func TestTiers(t *testing.T) {
	const made = `{"done":true,"response":{"cloudaicompanionProject":{"id":"made"}}}`
	tests := []struct {
		name    string
		load    []string
		onboard []string
		want    string   // the project
		asked   []string // the tier, or tier/project, of each onboardUser
		class   perigee.Class
		kind    providererr.Kind
	}{
		{name: "the default tier", load: []string{`{"allowedTiers":[{"id":"a"},{"id":"b","isDefault":true}]}`}, onboard: []string{made}, want: "made", asked: []string{"b"}},
		{name: "the first without a default", load: []string{`{"allowedTiers":[{"id":"a"},{"id":"b"}]}`}, onboard: []string{made}, want: "made", asked: []string{"a"}},
		{name: "the current one without a list", load: []string{`{"currentTier":{"id":"c"},"paidTier":{"id":"g1-pro-tier"}}`}, onboard: []string{made}, want: "made", asked: []string{"c"}},
		{name: "the free one without anything", load: []string{`{}`}, onboard: []string{made}, want: "made", asked: []string{"free-tier"}},
		{name: "no tier that wants a project that is not there", load: []string{`{"allowedTiers":[{"id":"a","isDefault":true,"userDefinedCloudaicompanionProject":true},{"id":"b"}]}`},
			onboard: []string{made}, want: "made", asked: []string{"b"}},
		{name: "only tiers that want a project", load: []string{`{"allowedTiers":[{"id":"a","userDefinedCloudaicompanionProject":true}]}`}, class: perigee.ClassForbidden},
		{name: "the project under another name", load: []string{`{"projectId":"other"}`}, want: "other"},
		{name: "an empty project is none", load: []string{`{"cloudaicompanionProject":{"id":""}}`}, onboard: []string{made}, want: "made", asked: []string{"free-tier"}},
		{name: "a project that only shows afterwards", load: []string{`{}`, `{"cloudaicompanionProject":"late"}`}, onboard: []string{`{"done":true}`}, want: "late", asked: []string{"free-tier"}},
		{name: "no project after all", load: []string{`{}`}, onboard: []string{`{"done":true,"response":{}}`}, asked: []string{"free-tier"}, class: perigee.ClassUnavailable},
		{name: "an operation that failed", load: []string{`{}`}, asked: []string{"free-tier"}, class: perigee.ClassForbidden, kind: providererr.KindBan,
			onboard: []string{`{"done":true,"error":{"code":403,"status":"PERMISSION_DENIED","message":"no","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"ACCOUNT_DISABLED"}]}}`}},
		{name: "nothing but reasons against it", load: []string{`{"ineligibleTiers":[{"reasonCode":"UNSUPPORTED_LOCATION","reasonMessage":"Not here."}]}`}, class: perigee.ClassForbidden, kind: providererr.KindIneligible},
		{name: "an account to be verified", load: []string{`{"ineligibleTiers":[{"reasonCode":"X","validationUrl":"https://accounts.google.com/signin/continue?a=b"}]}`},
			class: perigee.ClassVerification, kind: providererr.KindVerification},
		{name: "not JSON", load: []string{`<html>`}, class: perigee.ClassUnavailable},
		{name: "too long", load: []string{`{"x":"` + strings.Repeat("x", maxAnswer) + `"}`}, class: perigee.ClassUnavailable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			provider := &scripted{load: test.load, onboard: test.onboard}
			d := NewDiscoverer(DiscoverOptions{Endpoints: endpoints, Transport: provider})
			got, err := d.Discover(t.Context(), perigee.NewSecret("x"), nil)
			if test.class != "" {
				wantClass(t, err, test.class)
			} else if err != nil {
				t.Fatal(err)
			}
			if refusal, ok := errors.AsType[*Refusal](err); test.kind != "" && (!ok || refusal.Kind != test.kind) {
				t.Errorf("got %v, want one of kind %s", err, test.kind)
			}
			if got.ID != test.want {
				t.Errorf("project %q, want %q", got.ID, test.want)
			}
			var asked []string
			for _, body := range provider.asked {
				var request struct{ TierID, CloudaicompanionProject string }
				if err := json.Unmarshal([]byte(body), &request); err != nil {
					t.Fatal(err)
				}
				asked = append(asked, strings.TrimSuffix(request.TierID+"/"+request.CloudaicompanionProject, "/"))
			}
			if !slices.Equal(asked, test.asked) {
				t.Errorf("asked for %v, want %v", asked, test.asked)
			}
		})
	}
}

// TestHeadersFromScratch sees what the gateway sees.
func TestHeadersFromScratch(t *testing.T) {
	var seen http.Header
	var length int64
	d := NewDiscoverer(DiscoverOptions{Endpoints: endpoints, UserAgent: "agent", Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		seen, length = req.Header, req.ContentLength
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"cloudaicompanionProject":"p"}`)), Request: req}, nil
	})})
	if _, err := d.Discover(t.Context(), perigee.NewSecret("x"), nil); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"agent"}}
	for name := range seen {
		if !slices.Equal(seen[name], want[name]) {
			t.Errorf("%s: %q", name, seen[name])
		}
	}
	if len(seen) != len(want) || length <= 0 { // chunked bodies are refused
		t.Errorf("got %v, %d bytes", seen, length)
	}
}
