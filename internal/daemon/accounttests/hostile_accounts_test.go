package accounttests

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// ownerAsks makes a request of the admin routes with the admin token, and returns the status and
// the body of the answer.
func ownerAsks(t *testing.T, w *accountRig, method, path, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	status, answer, err := daemontest.AdminOf(t, w.gateway).DoChanged(t.Context(), method, path, body, change)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

func asItIs(*http.Request) {}

// A page in the owner's browser may know the token, and still gets nothing: not under a name of its
// own for this machine, and not from another origin.
func TestPagesManageNoAccounts(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAlone, nil)
	for _, c := range []struct {
		name, host string
		header     []string // name and value by turns
		want       int
	}{
		{"as it is", "", nil, 200},
		{"localhost", "localhost", nil, 200},
		{"a name that leads here", "rebound.example", nil, 403},
		{"a name that begins like this machine's", "127.0.0.1.rebound.example", nil, 403},
		{"a name that ends like this machine's", "rebound.localhost", nil, 403},
		{"another machine", "192.0.2.1:8741", nil, 403},
		{"any machine", "0.0.0.0", nil, 403},
		{"no origin that has a name", "", []string{"Origin", "null"}, 403},
		{"another origin", "", []string{"Origin", "https://rebound.example"}, 403},
		{"another port", "", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"two origins", "", []string{"Origin", w.gateway.URL(), "Origin", "https://rebound.example"}, 403},
		{"another site without an origin", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		status, answer := ownerAsks(t, w, http.MethodGet, "/v1/accounts", "", func(req *http.Request) {
			req.Host = c.host
			for i := 0; i < len(c.header); i += 2 {
				req.Header.Add(c.header[i], c.header[i+1])
			}
		})
		if status != c.want || (status != 200) == strings.Contains(answer, "ada@example.com") {
			t.Errorf("%s: got %d, want %d: %s", c.name, status, c.want, answer)
		}
	}
}

// What is not understood to the letter changes nothing.
func TestCommandsThatSayMoreThanIsKnownChangeNothing(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAndBob, nil)
	for _, body := range []string{
		``, `null`, `[]`, `"ada@example.com"`, `{`, `{}`, `{"enabled":false}`, `{"email":"ada@example.com"}`,
		`{"email":"ada@example.com","enabled":null}`, `{"email":"ada@example.com","enabled":"false"}`, `{"email":"ada@example.com","enabled":0}`,
		`{"email":["ada@example.com"],"enabled":false}`, `{"Email":"ada@example.com","enabled":false}`,
		`{"email":"ada@example.com","enabled":false,"state":"ready"}`, `{"email":"ada@example.com","enabled":false,"refresh_token":"sim-refresh-bob"}`,
		`{"email":"ada@example.com","email":"bob@example.com","enabled":false}`, `{"email":"ada@example.com","enabled":true,"enabled":false}`,
		`{"email":"ada@example.com","enabled":false}{"email":"bob@example.com","enabled":false}`, `{"email":"ada@example.com","enabled":false}x`,
		`{"email":"ada@example.com\u0000","enabled":false}`, `{"email":"*","enabled":false}`, `{"email":"%","enabled":false}`,
		`{"email":"ada@example.com","upstream":"other","enabled":false}`, strings.Repeat(`{"email":`, 100_000),
	} {
		if status, answer := ownerAsks(t, w, http.MethodPatch, "/v1/accounts", body, asItIs); status != 400 && status != 404 || strings.Contains(answer, "sim-refresh") {
			t.Errorf("%.80s: got %d: %.200s", body, status, answer)
		}
	}
	for _, path := range []string{"/v1/accounts", "/v1/accounts?email=", "/v1/accounts?email=*", "/v1/accounts?email=ada@example.com&upstream=other"} {
		if status, answer := ownerAsks(t, w, http.MethodDelete, path, "", asItIs); status != 400 && status != 404 {
			t.Errorf("DELETE %s: got %d: %s", path, status, answer)
		}
	}
	w.want("ada, bob")
}

// Two processes may write the file at once, or it may hold rubbish: nothing but the whole token
// opens.
func TestRubbishInTheTokensFileOpensToNobody(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	w := newAccountRig(t, true, "", adaAlone, nil)
	file := filepath.Join(w.gateway.Config.DataDir, "admin.token")
	for _, content := range []string{"", "\n", "short", strings.Repeat(" ", 100), strings.Repeat("x", 31)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, offer := range []string{"", strings.TrimSpace(content), content} {
			status, answer := ownerAsks(t, w, http.MethodGet, "/v1/accounts", "", func(req *http.Request) {
				req.Header.Set("Authorization", strings.TrimRight("Bearer "+strings.TrimSpace(offer), "\n"))
			})
			if status != http.StatusUnauthorized {
				t.Errorf("%q opens with %q: %d %s", content, offer, status, answer)
			}
		}
	}
	if status, answer := ownerAsks(t, w, http.MethodGet, "/v1/accounts", "", asItIs); status != http.StatusOK {
		t.Errorf("the token that was made anew gets %d: %s", status, answer)
	}
}
