package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server"
)

// A controlRig is a Control that writes down what it was asked, and answers with one account.
type controlRig struct {
	asked string
	err   error
}

var oneAccount = perigee.AccountRow{Email: "ada@example.com", Upstream: "gravity", Enabled: true, ProjectID: "p",
	State: perigee.AccountReady, Cooldowns: []perigee.Cooldown{}}

func (d *controlRig) note(format string, args ...any) error {
	d.asked = fmt.Sprintf(format, args...)
	return d.err
}

func (d *controlRig) Accounts(context.Context) ([]perigee.AccountRow, error) {
	return []perigee.AccountRow{oneAccount}, d.note("list")
}

func (d *controlRig) ImportAccounts(_ context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	return []perigee.ImportedRow{{Email: "ada@example.com", Upstream: "gravity", Result: perigee.ImportAdded}},
		d.note("import %q %v %s", in.Upstream, in.Partial, in.Document)
}

func (d *controlRig) EnableAccount(_ context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	return oneAccount, d.note("enable %q %q %v", name.Email, name.Upstream, enabled)
}

func (d *controlRig) RemoveAccount(_ context.Context, name perigee.AccountName) error {
	return d.note("remove %q %q", name.Email, name.Upstream)
}

func (d *controlRig) UseAccount(_ context.Context, name perigee.AccountName) error {
	return d.note("use %q %q", name.Email, name.Upstream)
}

func (d *controlRig) ExplainRoute(context.Context, perigee.RouteQuestion) (perigee.RouteExplanation, error) {
	return perigee.RouteExplanation{}, nil
}

func (d *controlRig) ExplainAccounts(_ context.Context, model string) ([]perigee.ChoiceRow, error) {
	return nil, d.note("explain %q", model)
}

func (d *controlRig) Models(_ context.Context, upstream string, _ bool) (perigee.ModelList, error) {
	return perigee.ModelList{Rows: []perigee.ModelRow{{ID: "m", Upstream: upstream, AliasOf: "n"}},
		Problems: []perigee.Problem{{Upstream: "down", Why: "away"}}}, nil
}

func (d *controlRig) Quota(_ context.Context, _ bool) (perigee.QuotaList, error) {
	return perigee.QuotaList{
		Rows: []perigee.QuotaRow{{Account: "ada@example.com", Model: "gemini-3-flash", Remaining: 0.5},
			{Account: "ada@example.com", Model: "claude-sonnet-4-6"}},
		Problems: []perigee.Problem{{Email: "bob@example.com", Upstream: "gravity", Why: "it is signed out"},
			{Email: "cyd@example.com", Upstream: "gravity", Why: "no\r\nX-Evil: yes" + strings.Repeat(" and more", 1000)}},
	}, d.note("quota")
}

func (d *controlRig) control() perigee.Control {
	return perigee.Control{AccountControl: d, RoutingControl: d, QuotaControl: d}
}

const adminToken = "the-admin-token-of-this-test-0123"

func newControlServer(d *controlRig) *server.Server {
	return server.New(server.Options{
		Upstream: script(nil), Control: d.control(),
		Admin: func(offer string) (bool, error) {
			if offer == "broken" {
				return false, errors.New("open /somewhere/admin.token: permission denied")
			}
			return perigee.NewSecret(adminToken).Equal(offer), nil
		},
	}, server.Settings{MaxBody: 1 << 20, Loopback: true, Concurrency: 1, Keys: []server.Key{
		{Name: "laptop", Secret: perigee.NewSecret("laptop-secret"), Models: []string{"gemini-*"}},
	}})
}

func knock(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestManagingAccountsOverHTTP(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		asked, answer      string
	}{
		{"GET", "/v1/accounts", "", 200, "list", `[{"email":"ada@example.com","upstream":"gravity","enabled":true,"preferred":false,"project_id":"p","state":"ready","cooldowns":[]}]`},
		{"POST", "/v1/accounts", `[1]`, 200, `import "" false [1]`, `"result":"added"`},
		{"POST", "/v1/accounts?upstream=gravity&partial=true", `{}`, 200, `import "gravity" true {}`, `"result":"added"`},
		{"POST", "/v1/accounts?partial=maybe", `{}`, 400, "", `partial=true`},
		{"PATCH", "/v1/accounts", `{"email":"a@b.c","enabled":false}`, 200, `enable "a@b.c" "" false`, `"email"`},
		{"PATCH", "/v1/accounts", `{"email":"a@b.c","upstream":"gravity","enabled":true}`, 200, `enable "a@b.c" "gravity" true`,
			`"email"`},
		{"PATCH", "/v1/accounts", `{"email":"a@b.c"}`, 400, "", `nothing is to be changed`},
		{"PATCH", "/v1/accounts", `{"email":"a@b.c","enabled":null}`, 400, "", `nothing is to be changed`},
		{"PATCH", "/v1/accounts", `{"email":"a@b.c","email":"d@e.f","enabled":true}`, 400, "", `repeated member \"email\"`},
		{"PATCH", "/v1/accounts", `{"email":"a@b.c","disabled":true}`, 400, "", `unknown or repeated member \"disabled\"`},
		{"DELETE", "/v1/accounts?email=a%2Bx@b.c&upstream=gravity", "", 200, `remove "a+x@b.c" "gravity"`, `"email":"a+x@b.c"`},
		{"DELETE", "/v1/accounts", `{"email": "a@b.c"}`, 200, `remove "a@b.c" ""`, `"email":"a@b.c"`},
		{"DELETE", "/v1/accounts", `{"email": "a@b.c", "upstream": "gravity"}`, 200, `remove "a@b.c" "gravity"`,
			`"upstream":"gravity"`},
		{"DELETE", "/v1/accounts?email=a@b.c", `{"email": "a@b.c"}`, 200, `remove "a@b.c" ""`, `"email":"a@b.c"`},
		{"DELETE", "/v1/accounts?email=other@b.c", `{"email": "a@b.c"}`, 400, "", `name different accounts`},
		{"DELETE", "/v1/accounts", `{"mail": "a@b.c"}`, 400, "", `unknown or repeated member \"mail\"`},
		{"DELETE", "/v1/accounts", `[]`, 400, "", `not a JSON object`},
		{"POST", "/v1/accounts/use", `{"email":"a@b.c"}`, 200, `use "a@b.c" ""`, `{"email":"a@b.c"}`},
		{"POST", "/v1/accounts/use", `["a@b.c"]`, 400, "", `not a JSON object`},
		{"POST", "/v1/accounts/use", `{"email":1}`, 400, "", `member \"email\" cannot be read`},
		{"POST", "/v1/accounts/use", `{"email":"a@b.c"} {}`, 400, "", `the body is damaged`},
		{"POST", "/v1/accounts/use", `{"email":"a@b.c"`, 400, "", `the body is damaged`},
		{"POST", "/v1/accounts/use", ``, 400, "", `no account is named; name it by its email`},
		{"POST", "/v1/accounts/use?email=a@b.c", ``, 200, `use "a@b.c" ""`, `{"email":"a@b.c"}`},
		{"DELETE", "/v1/accounts", ``, 400, "", `no account is named`},
		{"PATCH", "/v1/accounts?email=a@b.c&upstream=gravity", `{"enabled":false}`, 200, `enable "a@b.c" "gravity" false`, `"email"`},
		{"POST", "/v1/accounts", ``, 400, "", `the body is empty; send accounts as JSON, such as [{\"email\"`},
		{"GET", "/v1/accounts/status?model=gemini-3-flash", "", 200, `explain "gemini-3-flash"`, `[]`},
		{"GET", "/v1/accounts/status", "", 200, `explain ""`, `[]`},
		{"PUT", "/v1/accounts", "", 405, "", `DELETE, GET, PATCH, POST`},
	} {
		d := &controlRig{}
		w := knock(newControlServer(d), c.method, c.path, c.body, "Authorization", "Bearer "+adminToken)
		if w.Code != c.status || d.asked != c.asked || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s %s %s: got %d, asked %q: %s", c.method, c.path, c.body, w.Code, d.asked, w.Body)
		}
	}
}

func TestWhoMayManageAccounts(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"the admin token", []string{"Authorization", "Bearer " + adminToken}, 200},
		{"the admin token, oddly written", []string{"Authorization", "bearer   " + adminToken + " "}, 200},
		{"the admin token in the place of a key", []string{"X-Api-Key", adminToken}, 401},
		{"nothing", nil, 401},
		{"an empty token", []string{"Authorization", "Bearer "}, 401},
		{"something else", []string{"Authorization", "Bearer something"}, 401},
		{"a client's key", []string{"Authorization", "Bearer laptop-secret"}, 403},
		{"a client's key elsewhere", []string{"X-Goog-Api-Key", "laptop-secret"}, 403},
		{"a client's key beside the token", []string{"X-Api-Key", "laptop-secret", "Authorization", "Bearer " + adminToken}, 200},
		{"a web page", []string{"Authorization", "Bearer " + adminToken, "Origin", "https://evil.example"}, 403},
		{"a file that cannot be read", []string{"Authorization", "Bearer broken"}, 500},
	} {
		for _, path := range []string{"/v1/accounts", "/v1/accounts/status"} {
			d := &controlRig{}
			w := knock(newControlServer(d), "GET", path, "", c.headers...)
			if w.Code != c.status || (d.asked != "") != (c.status == 200) {
				t.Errorf("%s at %s: got %d, want %d: %s", c.name, path, w.Code, c.status, w.Body)
			}
			if strings.Contains(w.Body.String(), adminToken) || strings.Contains(w.Body.String(), "/somewhere") {
				t.Errorf("%s: the answer tells too much: %s", c.name, w.Body)
			}
		}
	}
	d := &controlRig{}
	if w := knock(newControlServer(d).Trusted(), "GET", "/v1/accounts", ""); w.Code != 200 || d.asked != "list" {
		t.Errorf("the owner's socket got %d", w.Code)
	}
	if w := knock(server.New(server.Options{Upstream: script(nil)}, server.Settings{Loopback: true}), "GET", "/v1/accounts",
		"", "Authorization", "Bearer x"); w.Code != 401 {
		t.Errorf("without an admin token %d", w.Code)
	}
}

func TestAccountErrorsHaveTheCallersShape(t *testing.T) {
	d := &controlRig{err: perigee.Errorf(perigee.ClassNotFound, "there is no account x").WithHint("see `perigee account list`")}
	w := knock(newControlServer(d), "DELETE", "/v1/accounts?email=x", "", "Authorization", "Bearer "+adminToken)
	if w.Code != 404 || w.Header().Get("X-Perigee-Class") != "not_found" ||
		!strings.Contains(w.Body.String(), `"code":"not_found"`) {
		t.Errorf("got %d %v: %s", w.Code, w.Header(), w.Body)
	}
	w = knock(newControlServer(d), "DELETE", "/v1/accounts?email=x", "", "Authorization", "Bearer "+adminToken,
		"Anthropic-Version", "2023-06-01")
	if w.Code != 404 || !strings.Contains(w.Body.String(), `"type":"error"`) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}

// Quota is for clients, each of which sees what it may ask.
func TestQuotaOverHTTP(t *testing.T) {
	w := knock(newControlServer(&controlRig{}), "GET", "/v1/quota", "", "Authorization", "Bearer laptop-secret")
	const want = `[{"account":"ada@example.com","upstream":"","model":"gemini-3-flash","pool":"","remaining":0.5}]`
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
	if notes := w.Header().Values("X-Perigee-Notes"); len(notes) != 2 || notes[0] != "bob@example.com: it is signed out" ||
		strings.ContainsAny(notes[1], "\r\n") {
		t.Errorf("the notes are %q", notes)
	}
	w = knock(newControlServer(&controlRig{}).Trusted(), "GET", "/v1/quota", "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "claude-sonnet-4-6") {
		t.Errorf("the owner got %d: %s", w.Code, w.Body)
	}
	// Through the socket the problems come whole; over TCP the parameter changes nothing.
	w = knock(newControlServer(&controlRig{}).Trusted(), "GET", "/v1/quota?problems=true", "")
	var list perigee.QuotaList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Rows) != 2 || len(list.Problems) != 2 ||
		len(list.Problems[1].Why) < 9000 {
		t.Errorf("the owner got %d: %s", w.Code, w.Body)
	}
	if w := knock(newControlServer(&controlRig{}), "GET", "/v1/quota?problems=true", "", "Authorization",
		"Bearer laptop-secret"); w.Body.String() != want {
		t.Errorf("got %s", w.Body)
	}
	if w := knock(newControlServer(&controlRig{}), "GET", "/v1/quota", ""); w.Code != 401 {
		t.Errorf("nobody got %d", w.Code)
	}
	if w := knock(newControlServer(&controlRig{}), "GET", "/v1/quota", "", "Authorization", "Bearer "+adminToken); w.Code != 401 {
		t.Errorf("the admin token is no client's key, and got %d", w.Code)
	}
}
