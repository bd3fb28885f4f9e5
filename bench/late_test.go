package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestSlowStreamsSayWhenTheyWereSent(t *testing.T) {
	server := quietServer(t)
	server.Start()
	addr := server.Listener.Addr().String()
	began := time.Now()
	late, err := followOne(t.Context(), addr, newQuestion(gemini, slowModel, 1000).request(addr))
	if err != nil || len(late) != slowChunks {
		t.Fatalf("%d chunks, %v", len(late), err)
	}
	for i, d := range late {
		if d < 0 || d > time.Since(began) {
			t.Errorf("chunk %d was %v late", i, d)
		}
	}
}

func TestSlowStreamsThatEndEarlyAreAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(stampedChunk(true))
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	request := strings.Replace(string(newQuestion(gemini, slowModel, 1000).request(addr)), "\r\n", "\r\nConnection: close\r\n", 1)
	if late, err := followOne(t.Context(), addr, []byte(request)); err == nil {
		t.Errorf("%d chunks and no error", len(late))
	}
}
