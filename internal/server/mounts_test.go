package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/membudget"
	"perigee/internal/server/mount"
)

// newMounts returns a server with files at each access level, and with a path that echoes bodies.
func newMounts() *server.Server {
	files := http.FileServerFS(fstest.MapFS{"page.txt": {Data: []byte("a page")}})
	under := func(prefix string, access mount.Access) server.Mount {
		return server.Mount{Path: prefix + "/*", Access: access, Handler: http.StripPrefix(prefix, files)}
	}
	return server.New(server.Options{
		Upstream: script(nil),
		Admin:    func(offer string) (bool, error) { return offer == adminToken, nil },
		Mounts: []server.Mount{
			under("/key", mount.Client), under("/open", mount.Public), under("/admin", mount.Admin), under("/socket", mount.Socket),
			mount.Methods{"POST": func(w http.ResponseWriter, r *http.Request) error {
				call := mount.CallOf(r)
				release, err := call.Admit(r.Context())
				if err != nil {
					return err
				}
				defer release()
				_, again := call.Admit(r.Context())
				return mount.WriteValue(w, map[string]any{"key": call.Key, "trusted": call.Trusted, "again": again == nil})
			}}.At("/mcp", mount.ClientOrOwner),
			mount.Methods{"POST": func(w http.ResponseWriter, r *http.Request) error {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				call := mount.CallOf(r)
				return mount.WriteValue(w, map[string]any{"key": call.Key, "id": call.ID, "body": string(body), "name": mount.Wildcard(r),
					"allowed": call.Allows("m")})
			}}.At("/echo/*", mount.Client),
		},
	}, server.Settings{MaxBody: 10, Loopback: true, Keys: []server.Key{{Name: "laptop",
		Secret: perigee.NewSecret("laptop-secret"), Models: []string{"other"}, Concurrency: 1}}})
}

// A mounted handler has the server's checks in front of it, whatever it is.
func TestMountsAreGuarded(t *testing.T) {
	const key, admin, cookie = "laptop-secret", "Bearer " + adminToken, "session=valid"
	for _, c := range []struct {
		path    string
		headers []string
		status  int
	}{
		{"/open/page.txt", nil, 200},
		{"/open/missing", nil, 404},
		{"//open//page.txt", nil, 200},
		{"/key/page.txt", []string{"X-Api-Key", key}, 200},
		{"/key/page.txt", nil, 401},
		{"/key/page.txt", []string{"Cookie", cookie}, 401},
		{"/admin/page.txt", []string{"Authorization", admin}, 200},
		{"/admin/page.txt", []string{"X-Api-Key", key}, 403},
		{"/socket/page.txt", []string{"Authorization", admin}, 403},
		{"/socket/page.txt", []string{"X-Api-Key", key}, 403},
		{"/socket/page.txt", nil, 401},
		{"/admin/page.txt", []string{"Cookie", cookie}, 401},
		{"/open/page.txt", []string{"Cookie", cookie, "Origin", "https://evil.example"}, 403},
		{"/open/page.txt", []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 403},
		{"/open/page.txt?a=%zz", nil, 400},
	} {
		w := knock(newMounts(), "GET", c.path, "", c.headers...)
		if w.Code != c.status || w.Header().Get("X-Perigee-Call") == "" || (w.Code == 200) != (w.Body.String() == "a page") {
			t.Errorf("%s with %q: %d %s", c.path, c.headers, w.Code, w.Body)
		}
		if w.Code >= 400 && w.Code != 404 && (w.Header().Get("X-Perigee-Class") == "" ||
			!strings.HasPrefix(w.Body.String(), `{"error":{"message":`)) {
			t.Errorf("%s with %q: the error is %v %s", c.path, c.headers, w.Header(), w.Body)
		}
	}
	r := httptest.NewRequest("GET", "http://evil.example/open/page.txt", nil)
	w := httptest.NewRecorder()
	if newMounts().ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("for another host: %d", w.Code)
	}
	for _, path := range []string{"/key", "/open", "/admin", "/socket"} {
		if w := knock(newMounts().Trusted(), "GET", path+"/page.txt", ""); w.Code != 200 {
			t.Errorf("%s over the owner's socket: %d", path, w.Code)
		}
	}
}

// A path of perigee's own and its alias below /v1 differ in nothing: neither in access and methods,
// nor in the rules about web pages, nor in the errors and the dialect that these have.
func TestOwnPathsHaveAliases(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, mount.Wildcard(r)) })
	options := server.Options{
		Upstream: script(nil),
		NewID:    func() string { return "call" },
		Admin:    func(offer string) (bool, error) { return offer == adminToken, nil },
		Mounts: []server.Mount{{Path: "/v1/client/*", Handler: ok, Methods: []string{"GET"}},
			{Path: "/v1/owned", Access: mount.Admin, Handler: ok, Methods: []string{"GET", "PATCH"}},
			{Path: "/v1/command", Access: mount.Socket, Handler: ok, Command: "perigee x"},
			{Path: "/elsewhere", Access: mount.Public, Handler: ok}},
	}
	settings := server.Settings{Origins: []string{"http://page.example"}, Keys: []server.Key{{Name: "k", Secret: perigee.NewSecret("laptop-secret")}}}
	statuses := map[int]int{}
	for _, path := range []string{"/client/a/b", "/owned", "/command", "/images/none", "/client/", "/client/x?a=%zz", "/audit?limit=0"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PATCH", "OPTIONS"} {
			for _, headers := range [][]string{nil, {"X-Api-Key", "laptop-secret"}, {"Authorization", "Bearer " + adminToken},
				{"Authorization", "Bearer wrong"}, {"Anthropic-Version", "2023-06-01", "X-Api-Key", "laptop-secret"},
				{"Origin", "http://page.example", "Access-Control-Request-Method", "GET"}, {"Origin", "http://evil.example"}} {
				s := server.New(options, settings) // a new one, because wrong keys are counted
				for _, handler := range []http.Handler{s, s.Trusted()} {
					name, alias := knock(handler, method, "/perigee/v1"+path, "", headers...), knock(handler, method, "/v1"+path, "", headers...)
					statuses[name.Code]++
					body := strings.ReplaceAll(name.Body.String(), "/perigee/v1/", "/v1/")
					if name.Code != alias.Code || !maps.EqualFunc(name.Header(), alias.Header(), slices.Equal[[]string]) &&
						len(body) == name.Body.Len() || !unknown(body) && body != alias.Body.String() {
						t.Errorf("%s %s with %q: %d %v %s, and the alias: %d %v %s", method, path, headers, name.Code, name.Header(),
							name.Body, alias.Code, alias.Header(), alias.Body)
					}
				}
			}
		}
	}
	for _, status := range []int{200, 204, 400, 401, 403, 404, 405} {
		if statuses[status] == 0 {
			t.Errorf("no request has the status %d: %v", status, statuses)
		}
	}
	if w := knock(server.New(options, settings), "GET", "/perigee/elsewhere", "", "X-Api-Key", "laptop-secret"); w.Code != 404 {
		t.Errorf("a path that is not below /v1 has no second name: %d", w.Code)
	}
}

// unknown reports whether a body is the error about a path that does not exist, whose hint depends
// on the path.
func unknown(body string) bool { return strings.Contains(body, "no such path") }

// A handler learns about its call, reads its body within the limits, and has its errors encoded in
// the caller's shape.
func TestMountedHandlers(t *testing.T) {
	w := knock(newMounts(), "POST", "/echo/a/b", "hello", "X-Api-Key", "laptop-secret")
	var got struct {
		Key, ID, Body, Name string
		Allowed             bool
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Key != "laptop" || got.ID != w.Header().
		Get("X-Perigee-Call") || got.Body != "hello" ||
		got.Name != "a/b" || got.Allowed {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		method, body, version string
		status                int
		want                  string
	}{
		{"POST", "more than ten bytes", "", 413, `{"error":{"message":"the body is larger than 10 bytes`},
		{"POST", "more than ten bytes", "2023-06-01", 413, `{"type":"error","error":{"type":"request_too_large"`},
		{"GET", "", "", 405, "use POST"},
	} {
		w := knock(newMounts(), c.method, "/echo/x", c.body, "X-Api-Key", "laptop-secret", "Anthropic-Version", c.version)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.body, w.Code, w.Body)
		}
	}
}

// A path for clients and the owner tells them apart, takes no key from the URL, and has errors of
// its own protocol. A handler there applies the limits of the key itself.
func TestMountForClientsAndTheOwner(t *testing.T) {
	server := newMounts()
	for _, c := range []struct{ name, target, header, want string }{
		{"key", "/mcp", "Bearer laptop-secret", `{"again":false,"key":"laptop","trusted":false}`},
		{"admin token", "/mcp", "Bearer " + adminToken, `{"again":true,"key":"","trusted":true}`},
		{"neither", "/mcp", "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"`},
		{"key in the URL", "/mcp?key=laptop-secret", "", `"data":{"class":"unauthenticated"}}}`},
	} {
		r := httptest.NewRequest("POST", "http://127.0.0.1"+c.target, strings.NewReader("{}"))
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), c.want) || (w.Code == 200) != (c.header != "") {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
}

// The body of a request to a mounted handler counts in the memory budget while the handler runs.
func TestBodiesOfMountsCountInTheMemoryBudget(t *testing.T) {
	const size = 2 << 20
	memory := membudget.New(64<<20, nil)
	held := int64(0)
	handler := mount.Handler(func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		held = memory.Used()
		return err
	})
	api := server.New(server.Options{Memory: memory, Mounts: []server.Mount{{Path: "/mounted", Handler: handler}}}, server.Settings{MaxBody: 64 << 20})
	send := func() *httptest.ResponseRecorder {
		held = 0
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mounted", strings.NewReader(strings.Repeat("x", size))))
		return w
	}
	if w := send(); w.Code != http.StatusOK || held < 4*size || memory.Used() != 0 {
		t.Errorf("got %d, %d bytes held, %d at the end: %s", w.Code, held, memory.Used(), w.Body)
	}
	var other membudget.Lease
	if err := errors.Join(other.Open(memory, true), other.Grow(40<<20)); err != nil {
		t.Fatal(err)
	}
	if w := send(); w.Code != http.StatusServiceUnavailable || w.Header().Get("X-Perigee-Class") != string(perigee.ClassCapacity) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}
