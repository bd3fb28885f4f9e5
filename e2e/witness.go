package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	picture "image"
	"image/color"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// A witness stands between perigee and the provider, and knows what the provider was sent.
type witness struct {
	url    string
	server *http.Server

	picture picture.Image
	png     []byte

	mu     sync.Mutex
	bodies [][]byte // of the calls since it was last asked
}

// newWitness forwards to the provider at the given address.
func newWitness(provider string) (*witness, error) {
	target, err := url.Parse(provider)
	if err != nil {
		return nil, err
	}
	w := &witness{picture: drawPicture()}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, w.picture); err != nil {
		return nil, err
	}
	w.png = encoded.Bytes()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as witness: %w", err)
	}
	w.url = "http://" + listener.Addr().String()
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /picture", w.tell)
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		w.note(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(rw, r)
	})
	w.server = &http.Server{Handler: mux}
	go w.server.Serve(listener)
	return w, nil
}

func (w *witness) close() { w.server.Close() }

func (w *witness) note(body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies = append(w.bodies, body)
}

// tell is pictureArrived for clients in other languages.
func (w *witness) tell(rw http.ResponseWriter, _ *http.Request) {
	if err := w.pictureArrived(); err != nil {
		http.Error(rw, err.Error(), http.StatusNotFound)
	}
}

// pictureArrived reports whether the provider was sent the picture since the last time that this
// was asked. It compares pixels, because agents encode pictures again.
func (w *witness) pictureArrived() error {
	w.mu.Lock()
	bodies := w.bodies
	w.bodies = nil
	w.mu.Unlock()

	others := 0
	for _, body := range bodies {
		var value any
		if json.Unmarshal(body, &value) != nil {
			continue
		}
		for _, data := range inlineData(value) {
			if decoded, _, err := picture.Decode(bytes.NewReader(data)); err == nil && samePixels(decoded, w.picture) {
				return nil
			}
			others++
		}
	}
	return fmt.Errorf("the picture did not reach the provider: %d requests, with %d other attachments", len(bodies), others)
}

// inlineData finds the attachments in a request of the Gemini API, at any depth.
func inlineData(value any) (found [][]byte) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			found = append(found, inlineData(element)...)
		}
	case map[string]any:
		for name, member := range value {
			blob, _ := member.(map[string]any)
			text, isText := blob["data"].(string)
			if !isText || name != "inlineData" && name != "inline_data" {
				found = append(found, inlineData(member)...)
				continue
			}
			text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
			if data, err := base64.StdEncoding.DecodeString(text); err == nil {
				found = append(found, data)
			}
		}
	}
	return found
}

const pictureSize = 32

// drawPicture makes a picture that no client has of its own.
func drawPicture() picture.Image {
	drawn := picture.NewRGBA(picture.Rect(0, 0, pictureSize, pictureSize))
	for y := range pictureSize {
		for x := range pictureSize {
			drawn.Set(x, y, color.RGBA{uint8(x * 8), uint8(y * 8), uint8(x ^ y), 255})
		}
	}
	return drawn
}

func samePixels(a, b picture.Image) bool {
	if a.Bounds().Size() != b.Bounds().Size() {
		return false
	}
	at, bt := a.Bounds().Min, b.Bounds().Min
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			r1, g1, b1, a1 := a.At(at.X+x, at.Y+y).RGBA()
			r2, g2, b2, a2 := b.At(bt.X+x, bt.Y+y).RGBA()
			if r1 != r2 || g1 != g2 || b1 != b2 || a1 != a2 {
				return false
			}
		}
	}
	return true
}
