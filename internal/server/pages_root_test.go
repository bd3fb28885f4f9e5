package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"perigee"
)

// A startPage stands for the dashboard.
type startPage struct{}

func (startPage) IsHome(r *http.Request) bool { return r.Header.Get("Accept") == "text/html" }

func (startPage) ServeHome(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusUnauthorized)
	_, err := w.Write([]byte("dashboard"))
	return err
}

// Programs that look at the base URL get the name and the version without a key, and browsers the
// dashboard.
func TestRoot(t *testing.T) {
	status := func() perigee.DaemonStatus { return perigee.DaemonStatus{Version: "1.2.3"} }
	keys := Settings{Keys: []Key{{Name: "laptop", Secret: perigee.NewSecret("client-secret")}}, Loopback: true}
	with, without := New(Options{Status: status, Home: startPage{}}, keys), New(Options{}, keys)
	const program = `{"name":"perigee","version":"1.2.3"}`
	for name, test := range map[string]struct {
		server               *Server
		method, host, accept string
		status               int
		body                 string
	}{
		"a program":              {with, "GET", "127.0.0.1:8741", "*/*", 200, program},
		"a program without any":  {with, "GET", "127.0.0.1:8741", "", 200, program},
		"a probe":                {with, "HEAD", "127.0.0.1:8741", "", 200, program},
		"a browser":              {with, "GET", "localhost:8741", "text/html", 401, "dashboard"},
		"without a dashboard":    {without, "GET", "localhost:8741", "text/html", 200, `{"name":"perigee","version":""}`},
		"a foreign host":         {with, "GET", "evil.example.com", "text/html", 403, ""},
		"a method that is wrong": {with, "POST", "localhost:8741", "", 405, ""},
	} {
		r := httptest.NewRequest(test.method, "/", nil)
		r.Host = test.host
		r.Header.Set("Accept", test.accept)
		w := httptest.NewRecorder()
		test.server.ServeHTTP(w, r)
		if w.Code != test.status || test.body != "" && w.Body.String() != test.body {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if w.Code == 200 && w.Header().Get("Vary") != "Accept" || w.Header().Get("X-Perigee-Call") == "" {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
}
