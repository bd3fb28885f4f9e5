package antigravity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is the upstream in front of the provider's stand-in, with one account.
type rig struct {
	*Upstream
	t        *testing.T
	provider *simulator.Server
	fakePool *fakePool
}

func newRig(t *testing.T, change func(*Options), faults ...simulator.Fault) *rig {
	t.Helper()
	provider, err := simulator.New(simulator.Options{Seed: t.Name(), Switches: rules.StrictSwitches()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	if err := provider.AddFaults(faults...); err != nil {
		t.Fatal(err)
	}
	transport := provider.Transport()
	l := &fakePool{token: access(t, transport)}
	opts := Options{
		Name: "gravity", Endpoints: []string{"https://daily.example", "https://autopush.example", "https://prod.example"},
		Accounts: l, UserAgent: UserAgent("", "test"), SessionRecovery: true, Transport: transport,
	}
	if change != nil {
		change(&opts)
	}
	u := New(opts)
	t.Cleanup(func() { _ = u.Close(); transport.CloseIdleConnections() })
	return &rig{Upstream: u, t: t, provider: provider, fakePool: l}
}

// access signs the simulator's first account in.
func access(t *testing.T, transport http.RoundTripper) perigee.Secret {
	t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"sim-refresh-ada"}, "client_id": {"id"}, "client_secret": {"secret"}}
	resp, err := (&http.Client{Transport: transport}).PostForm("https://oauth2.example/token", form)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var grant struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&grant); err != nil || grant.AccessToken == "" {
		t.Fatal("no token", err)
	}
	return perigee.NewSecret(grant.AccessToken)
}

// A fakePool has one account, leases it as often as it is asked to, and records the diagnoses.
type fakePool struct {
	mu        sync.Mutex
	token     perigee.Secret
	refusals  int
	leases    int
	most      int // how many leases one call may have after its first; 0 means once
	diagnoses []providererr.Kind
}

func (l *fakePool) Acquire(pool.Request) pool.Acquisition { return &acquisition{fakePool: l} }

type acquisition struct {
	*fakePool
	times int
}

func (b *acquisition) Next(context.Context) (pool.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.times++; b.times > b.most+1 {
		return nil, perigee.Errorf(perigee.ClassRateLimited, "no account is left")
	}
	b.leases++
	return (*lease)(b.fakePool), nil
}

type lease fakePool

func (l *lease) Account() pool.Leased {
	return pool.Leased{Email: "ada@example.com", Project: "sim-project-ada", Why: "the only one"}
}
func (l *lease) Token(context.Context) (perigee.Secret, error) { return l.token, nil }
func (l *lease) Refused(perigee.Secret)                        { l.mu.Lock(); l.refusals++; l.mu.Unlock() }

func (l *lease) Answering() {}

func (l *lease) Done(v *providererr.Diagnosis) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v == nil {
		l.diagnoses = append(l.diagnoses, "")
		return
	}
	l.diagnoses = append(l.diagnoses, v.Kind)
}

// prompt makes a request from a body in the Gemini dialect, as a client of another dialect would
// have asked it.
func prompt(t *testing.T, model, body string) *perigee.Request {
	t.Helper()
	req, err := dialect.DecodeRequest(perigee.Origin{ID: "call-1", Body: []byte(body), Log: &perigee.CallLog{}}, model, true)
	if err != nil {
		t.Fatal(err)
	}
	req.Dialect = perigee.DialectOpenAIChat
	return req
}

func user(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"contents":[{"role":"user","parts":[{"text":` + string(quoted) + `}]}]}`
}

// hear makes a call and writes down what came, one word for each kind of event.
func (r *rig) hear(req *perigee.Request) string {
	r.t.Helper()
	return strings.Join(listen(req, r.Stream(r.t.Context(), req)), "; ")
}

func listen(req *perigee.Request, stream func(func(perigee.Event, error) bool)) (heard []string) {
	say := func(format string, args ...any) { heard = append(heard, fmt.Sprintf(format, args...)) }
	noted := len(req.Log.Notes())
	for ev, err := range stream {
		for _, note := range req.Log.Notes()[noted:] {
			say("%v", note)
			noted++
		}
		if err != nil {
			e := perigee.AsError(err)
			say("error %s: %s", e.Class, strings.SplitN(e.Message, ":", 2)[0])
			continue
		}
		switch ev.Kind {
		case perigee.EventStart:
			say("start %s %s", ev.Upstream, ev.Account)
		case perigee.EventText:
			if n := len(heard); n > 0 && strings.HasPrefix(heard[n-1], "text ") {
				heard[n-1] += ev.Text
				continue
			}
			say("text %s", ev.Text)
		case perigee.EventThinking:
			if n := len(heard); n > 0 && strings.HasPrefix(heard[n-1], "thinking ") {
				heard[n-1] += ev.Text
				continue
			}
			say("thinking %s", ev.Text)
		case perigee.EventSignature:
			say("signature")
		case perigee.EventCall:
			say("call %s %s", ev.Call.Name, ev.Call.Args)
		case perigee.EventGrounding:
			say("grounding")
		case perigee.EventFinish:
			say("finish %s", ev.Finish.Reason)
		case perigee.EventFrame:
			say("frame %s", ev.Frame)
		}
	}
	return heard
}

// asked lists the hosts that models were asked at, in order, each with the status of the answer.
func (r *rig) asked() (list []string) {
	for _, call := range r.provider.Calls() {
		if strings.Contains(call.Path, "GenerateContent") {
			list = append(list, fmt.Sprintf("%s %d", strings.TrimSuffix(call.Host, ".example"), call.Status))
		}
	}
	return list
}

// A roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// refusing answers with a 400 of the given text as long as refuse says so, and otherwise asks the
// provider.
func refusing(next http.RoundTripper, refuse func(body string) string) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if !strings.Contains(req.URL.Path, "GenerateContent") {
			return next.RoundTrip(req)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		if text := refuse(string(body)); text != "" {
			quoted, _ := json.Marshal(text)
			return &http.Response{StatusCode: 400, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
				Body: io.NopCloser(strings.NewReader(`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":` + string(quoted) + `}}`))}, nil
		}
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(strings.NewReader(string(body)))
		return next.RoundTrip(again)
	})
}
