package prooftests

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// A canary is a secret that must not turn up anywhere. It has characters that URLs and base64 write
// differently.
func canary(name string) string { return "canary/" + name + "+of=the;mine" }

// All the places where a secret can be. Wrong ones may be secrets as well: a client that has not
// been told about perigee sends its own.
var canaries = []string{
	canary("client-literal"), canary("client-env"), canary("client-file"), canary("client-reloaded"),
	canary("upstream-literal"), canary("upstream-env"), canary("upstream-file"), canary("upstream-reloaded"),
	canary("wrong-bearer"), canary("wrong-query"), canary("wrong-header"), canary("wrong-api-key"),
	canary("misplaced"), canary("unquoted"), canary("oauth"),
}

// needles are the forms in which a secret could be found.
func needles(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	forms := map[string]string{
		"plain": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
		"json": strings.Trim(string(quoted), `"`), "quoted": strings.Trim(fmt.Sprintf("%q", secret), `"`),
	}
	// Inside a longer text base64 depends on where the secret begins; the characters at its ends
	// belong to the neighbours as well.
	for shift := range 3 {
		padded := append(bytes.Repeat([]byte{'x'}, shift), secret...)
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := encoding.EncodeToString(padded)
			forms[fmt.Sprint(name, shift)] = text[shift+1 : len(text)-2]
		}
	}
	return forms
}

// search reports every canary in what was written somewhere.
func search(t *testing.T, where string, written []byte) {
	t.Helper()
	for _, secret := range canaries {
		for form, needle := range needles(secret) {
			if i := bytes.Index(written, []byte(needle)); i >= 0 {
				t.Errorf("%s has %q (%s): …%q…", where, secret, form, written[max(0, i-100):min(len(written), i+100)])
				break
			}
		}
	}
}

// indiscreet is a provider that repeats the key it was given wherever it can, as some do when they
// refuse one. What it does is in the model's name.
func indiscreet(t *testing.T) (address string) {
	t.Helper()
	return daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		key := r.Header.Get("X-Goog-Api-Key")
		quoted, _ := json.Marshal(key)
		refuse := func(code int) string {
			return fmt.Sprintf(`{"error":{"code":%d,"message":"Consumer 'api_key:%s' has been suspended.","status":"PERMISSION_DENIED",`+
				`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED","metadata":{"consumer":%s}}]}}`, code, key, quoted)
		}
		switch _, what, _ := strings.Cut(r.URL.Path, "/models/"); {
		case strings.HasPrefix(what, "refused"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, refuse(403))
		case strings.HasPrefix(what, "unknown"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, refuse(404))
		case strings.HasPrefix(what, "html"):
			w.WriteHeader(http.StatusBadGateway)
			_, _ = fmt.Fprintf(w, "<html>%s</html>", key)
		case strings.HasPrefix(what, "moved"):
			http.Redirect(w, r, "/elsewhere?key="+url.QueryEscape(key), http.StatusFound)
		case strings.HasPrefix(what, "broken"):
			_, _ = fmt.Fprintf(w, "data: %s\r\n\r\ndata: %s\r\n\r\n", daemontest.FirstEvent, refuse(403))
		case strings.HasPrefix(what, "cut"):
			panic(http.ErrAbortHandler)
		case strings.HasSuffix(what, "streamGenerateContent"):
			_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", daemontest.LastEvent)
		case what == "":
			_, _ = io.WriteString(w, `{"models":[{"name":"models/good"}]}`)
		case strings.HasSuffix(what, "countTokens"):
			_, _ = io.WriteString(w, `{"totalTokens":1}`)
		default:
			_, _ = io.WriteString(w, daemontest.LastEvent)
		}
	}))
}

// visit makes every kind of call with every kind of key and returns all that the client got to see.
func visit(t *testing.T, base string, keys []string) []byte {
	t.Helper()
	var seen bytes.Buffer
	send := func(method, path, body string, header ...string) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := daemontest.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		_ = resp.Header.Write(&seen)
		_, _ = io.Copy(&seen, resp.Body)
	}
	for _, key := range keys {
		for _, model := range []string{"good", "refused", "unknown", "html", "moved", "broken", "cut"} {
			for _, method := range []string{"generateContent", daemontest.Streaming, "streamGenerateContent", "countTokens", "embedContent"} {
				send("POST", "/v1beta/models/"+model+":"+method, daemontest.Question, "X-Goog-Api-Key", key)
			}
		}
		escaped := url.QueryEscape(key)
		send("POST", "/v1beta/models/good:generateContent?key="+escaped+"&api_key="+escaped, daemontest.Question)
		send("POST", "/v1beta/models/good:generateContent?key="+escaped, "{")
		send("GET", "/v1beta/models?pageToken=x&key="+escaped, "", "Authorization", "Bearer "+key)
		send("GET", "/v1/usage?by=key", "", "X-Api-Key", key)
		send("GET", "/metrics", "", "X-Api-Key", key, "Accept", "application/openmetrics-text")
		send("GET", "/nonsense?key="+escaped, "", "Authorization", "Bearer "+key)
		send("DELETE", "/v1beta/models?key="+escaped, "")
		send("GET", "/health", "", "Origin", "https://example.com", "Authorization", "Bearer "+key, "Cookie", "key="+key)
	}
	if !bytes.Contains(seen.Bytes(), []byte("\nperigee_requests_total{")) {
		t.Error("no metrics were read")
	}
	if !bytes.Contains(seen.Bytes(), []byte(`"text":"two"`)) || !bytes.Contains(seen.Bytes(), []byte("has been suspended")) {
		t.Errorf("nobody was answered, or nobody refused: this test looks at nothing")
	}
	return seen.Bytes()
}

// misplace puts secrets where the owner's requests have names, and where refused ones have paths.
// What the owner gets back may repeat them.
func misplace(t *testing.T, base, admin string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		in, query := url.PathEscape(secret), url.QueryEscape(secret)
		for _, path := range []string{"/v1/traces/" + in, "/v1/traces?account=" + query + "&client=" + query + "&key=" + query + "&model=x" + query + "*"} {
			daemontest.AskBare(t, "GET", base+path, "Bearer "+admin)
		}
		daemontest.AskBare(t, "POST", base+"/v1/accounts/use?upstream="+query+"&email="+query+"@example.com", "Bearer "+admin)
	}
	daemontest.AskBare(t, "GET", base+"/v1/traces/"+admin, "") // few: answers to wrong tokens are slow
	daemontest.AskBare(t, "GET", base+"/v1/accounts/"+url.PathEscape(secrets[1]), "Bearer "+secrets[1])
}

// searchAudit looks for the canaries and the admin token in the audit log, which must have the acts
// of misplace.
func searchAudit(t *testing.T, base, admin string) {
	t.Helper()
	rows := daemontest.AskBare(t, "GET", base+"/v1/audit?limit=1000", "Bearer "+admin)
	for _, action := range []string{"trace.list", "trace.read", "account.use", "admin.refused"} {
		if !bytes.Contains(rows, []byte(`"action":"`+action+`"`)) {
			t.Errorf("the audit log has no %s: %s", action, rows)
		}
	}
	search(t, "the audit log", rows)
	if bytes.Contains(rows, []byte(admin)) {
		t.Errorf("the admin token is in the audit log: %s", rows)
	}
}

func TestSecretsTurnUpNowhere(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	provider := indiscreet(t)
	dir, data := t.TempDir(), daemontest.DataDir(t)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environment := map[string]string{"CLIENT": canary("client-env"), "UPSTREAM": canary("upstream-env")}
	write("client", canary("client-file")+"\n")
	write("upstream", canary("upstream-file")+"\n")
	upstream := func(keys string) string {
		return fmt.Sprintf("log: debug\nupstreams:\n  - {name: studio, kind: gemini, url: %q, keys: [%s]}\n", provider, keys)
	}
	write("config.yaml", upstream(fmt.Sprintf("%q, env:UPSTREAM, file:upstream", canary("upstream-literal")))+
		fmt.Sprintf("keys:\n  - {name: a, secret: %q}\n  - {name: b, secret: env:CLIENT}\n  - {name: c, secret: file:client}\n", canary("client-literal")))
	src := config.Sources{
		Path:  filepath.Join(dir, "config.yaml"),
		Flags: map[string]string{"listen": "127.0.0.1:0", "data_dir": data},
		Env:   func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
	}
	log, book := &daemontest.Log{}, make(daemontest.Logbook, 100_000)
	text := slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})
	begin, readings := time.Now(), atomic.Int64{}
	g := daemontest.StartIn(t, src, func(o *daemon.Options) {
		o.Poll = 5 * time.Millisecond
		// Time passes quickly, because wrong keys are slowed down after ten in a minute.
		o.Now = func() time.Time { return begin.Add(time.Duration(readings.Add(1)) * 20 * time.Second) }
		o.Logger = slog.New(slog.NewMultiHandler(text, slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}), book))
	})
	wrong := []string{canary("wrong-bearer"), canary("wrong-query"), canary("wrong-header"), canary("wrong-api-key")}
	search(t, "an answer", visit(t, g.URL(), append(wrong, canary("client-literal"), canary("client-env"), canary("client-file"))))
	raw, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(raw))
	configured := []string{admin, canary("client-literal"), canary("client-env"), canary("client-file"),
		canary("upstream-literal"), canary("upstream-env"), canary("upstream-file")}
	misplace(t, g.URL(), admin, configured)
	searchAudit(t, g.URL(), admin)
	printSecrets(t, g.URL(), canary("client-literal"), configured)

	// Edits that do not hold: their secrets are in the wrong place, or not even YAML.
	for _, bad := range []string{
		upstream("[" + canary("misplaced") + "]"),
		upstream("x") + "keys: " + canary("misplaced") + "\n",
		upstream("x") + "keys:\n  - {name: a, secrte: \"" + canary("misplaced") + "\"}\n",
		upstream("x") + "keys:\n  - {name: a, secret: {is: \"" + canary("misplaced") + "\"}}\n",
		upstream("x") + "keys:\n  - {name: a, secret: \"" + canary("unquoted") + "}\n",
		upstream("x") + "keys:\n  - name: a\n   secret: " + canary("unquoted") + ": [\n",
		upstream("x") + "keys:\n  - {name: a, secret: \"" + canary("misplaced") + "\"}\n  - {name: b, secret: \"" + canary("misplaced") + "\"}\n",
		"upstreams:\n  - {name: x, kind: antigravity, oauth: {client_id: id, client_secret: \"" + canary("oauth") + "\"}}\n",
		"upstreams:\n  - {name: x, kind: langserver, accept_terms_risk: true, accounts_from: y, oauth: {client_id: id, client_secret: \"" + canary("oauth") + "\"}}\n",
		"store: {url: \"mysql://user:" + canary("misplaced") + "@localhost/\"}\n",
	} {
		write("config.yaml", bad)
		book.Line(t, "keeping the previous one")
	}
	write("config.yaml", upstream(fmt.Sprintf("%q", canary("upstream-reloaded")))+fmt.Sprintf("keys: [{name: a, secret: %q}]\n", canary("client-reloaded")))
	book.Line(t, "configuration reloaded")
	search(t, "an answer", visit(t, g.URL(), []string{canary("client-literal"), canary("client-reloaded")}))

	misplace(t, g.URL(), admin, []string{canary("client-reloaded"), canary("upstream-reloaded")})
	searchAudit(t, g.URL(), admin)

	searchFiles(t, data) // while the write-ahead log is there
	g.Daemon.Stop(t.Context())
	searchFiles(t, data)
	searchTraces(t, data, admin)
	if len(log.Bytes()) < 10_000 || !bytes.Contains(log.Bytes(), []byte("DEBUG")) {
		t.Errorf("the log is too short to prove anything: %d bytes", len(log.Bytes()))
	}
	search(t, "the log", log.Bytes())
	if bytes.Contains(log.Bytes(), []byte(admin)) {
		t.Error("the admin token is in the log")
	}

	loaded, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	search(t, "config show", fmt.Appendf(nil, "%v\n%+v\n%#v\n%s", loaded.Values(), *loaded.Config, *loaded.Config, loaded.Warnings))
}

// printSecrets has an agent send all secrets in prompts, as it does after it has printed its
// environment: plain and in JSON in JSON.
func printSecrets(t *testing.T, base, key string, printed []string) {
	t.Helper()
	for _, secret := range printed {
		once, _ := json.Marshal(secret)
		twice, _ := json.Marshal("env: " + string(once) + " " + url.QueryEscape(secret))
		body := fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%s},{"text":%s}]}]}`, once, twice)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1beta/models/good:generateContent", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Goog-Api-Key", key)
		resp, err := daemontest.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// searchTraces looks for the admin token in traces, and for the marks that stand for secrets of
// prompts.
func searchTraces(t *testing.T, data, admin string) {
	t.Helper()
	marked := 0
	err := filepath.WalkDir(filepath.Join(data, "traces"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(admin)) {
			t.Errorf("the admin token is in %s", path)
		}
		if filepath.Base(path) == "client_request.json" && bytes.Contains(content, []byte("env: \\\"[redacted]\\\" [redacted]")) {
			marked++
		}
		return err
	})
	if err != nil || marked == 0 {
		t.Errorf("%d prompts with secrets were found in traces (%v)", marked, err)
	}
}

// searchFiles looks into every file under dir, also those that were deleted from a database but not
// overwritten.
func searchFiles(t *testing.T, dir string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found++
		search(t, filepath.Base(path), content)
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("looked into %d files (%v)", found, err)
	}
}

// The search finds what it is made for.
func TestSearchFindsEveryForm(t *testing.T) {
	t.Parallel()
	secret := canaries[0]
	for _, written := range []string{
		secret, "key=" + url.QueryEscape(secret) + "&", base64.StdEncoding.EncodeToString([]byte("{\"key\":\"" + secret + "\"}")),
		base64.URLEncoding.EncodeToString([]byte("x" + secret)), hex.EncodeToString([]byte(secret)),
	} {
		found := false
		for _, needle := range needles(secret) {
			found = found || strings.Contains(written, needle)
		}
		if !found {
			t.Errorf("nothing was found in %q", written)
		}
	}
}
