//go:build linux

package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// The models of the provider, which say how it answers.
const (
	plainModel  = "plain"  // a short answer at once
	hugeModel   = "huge"   // 250 MiB of text
	piecesModel = "pieces" // 250 MiB of empty parts
	largeModel  = "large"  // 5 MB of text
	quietModel  = "quiet"  // reads the request, begins a stream and says nothing
	longModel   = "long"   // a stream of 512 KB that does not end
)

// answerSize is how large hostile answers are: a little less than what is read of an answer in one
// piece.
const answerSize = 250 << 20

// largeAnswer is how large an answer may be that is not hostile: some pictures.
const largeAnswer = 5e6

// longEvents is how many events of 800 bytes a long stream has.
const longEvents = 650

type provider struct {
	addr   string
	server *http.Server
}

func startProvider() (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", provide)
	p := &provider{addr: l.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}
	go func() { _ = p.server.Serve(l) }() // until it is closed
	return p, nil
}

func (p *provider) stop() { _ = p.server.Close() }

const (
	answerHead = `{"candidates":[{"content":{"role":"model","parts":[`
	answerTail = `]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`
)

func provide(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	if strings.HasPrefix(method, "stream") {
		provideStream(w, r, model)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(method, "mbed") {
		_, _ = io.WriteString(w, `{"embeddings":[{"values":[0.1]}]}`)
		return
	}
	if _, err := io.WriteString(w, answerHead); err != nil {
		return
	}
	piece := `{"text":"ok"}`
	switch model {
	case hugeModel, largeModel:
		size := answerSize
		if model == largeModel {
			size = largeAnswer
		}
		if !repeat(w, `{"text":"`, strings.Repeat("all work and no play ", 3000), size) {
			return
		}
		piece = `"}`
	case piecesModel:
		if !repeat(w, "", strings.Repeat(`{"text":""},`, 5000), answerSize) {
			return
		}
	}
	_, _ = io.WriteString(w, piece+answerTail)
}

// repeat writes a text until size bytes are written, and reports whether the client took them.
func repeat(w io.Writer, before, text string, size int) bool {
	if _, err := io.WriteString(w, before); err != nil {
		return false
	}
	for n := 0; n < size; n += len(text) {
		if _, err := io.WriteString(w, text); err != nil {
			return false
		}
	}
	return true
}

func provideStream(w http.ResponseWriter, r *http.Request, model string) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	if model == quietModel {
		<-r.Context().Done()
		return
	}
	text := strings.Repeat("slowly ", 100)
	events := 0
	switch model {
	case longModel:
		events = longEvents
	case largeModel:
		events = largeAnswer / len(text)
	}
	for range events {
		if _, err := io.WriteString(w, "data: "+`{"candidates":[{"content":{"role":"model","parts":[{"text":"`+text+`"}]}}]}`+"\r\n\r\n"); err != nil {
			return
		}
	}
	if model == longModel {
		_ = control.Flush()
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, "data: "+answerHead+`{"text":"ok"}`+answerTail+"\r\n\r\n")
}
