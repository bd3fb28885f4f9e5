package command

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAnswersOllama(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   bool
	}{
		{200, `{"version":"0.12.6"}`, true},
		{200, `{"name":"perigee","version":""}`, false},
		{200, `<html>`, false},
		{404, `{"version":"0.12.6"}`, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/version" {
				t.Errorf("it asks for %s", r.URL.Path)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		if got := AnswersOllama(server.URL); got != c.want {
			t.Errorf("%d %s: %v", c.status, c.body, got)
		}
		server.Close()
		if AnswersOllama(server.URL) {
			t.Error("a server that is gone answers")
		}
	}
	if AnswersOllama("http://[") {
		t.Error("an address that is none answers")
	}
}
