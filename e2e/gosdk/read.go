package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// A reader stands between perigee and a provider, and reads the requests with the types of the
// provider's own SDK. What these types do not know is lost when they write the request again.
type reader struct {
	mu       sync.Mutex
	requests int
	lost     []string
}

// newParams are the types of request bodies, by the end of the path.
var newParams = map[string]func() any{
	"/chat/completions": func() any { return new(openai.ChatCompletionNewParams) },
	"/responses":        func() any { return new(responses.ResponseNewParams) },
	"/input_tokens":     func() any { return new(responses.InputTokenCountParams) },
	"/messages":         func() any { return new(anthropic.MessageNewParams) },
	"/count_tokens":     func() any { return new(anthropic.MessageCountTokensParams) },
}

// serveReader forwards to a provider until the process is killed. It prints its address. GET /read
// tells what was read since it was last asked.
func serveReader(provider string) error {
	target, err := url.Parse(provider)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r := new(reader)
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, FlushInterval: -1}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /read", r.tell)
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if req.Method == http.MethodPost {
			r.read(req.URL.Path, body)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, req)
	})
	fmt.Printf("reads at http://%s\n", listener.Addr())
	return http.Serve(listener, mux)
}

func (r *reader) read(path string, body []byte) {
	lost := []string{path + ": no type of the SDK is for this path"}
	for end, params := range newParams {
		if strings.HasSuffix(path, end) {
			lost = compare(body, params())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	for _, what := range lost {
		if !slices.Contains(r.lost, what) {
			r.lost = append(r.lost, what)
		}
	}
}

func (r *reader) tell(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"requests": r.requests, "lost": r.lost})
	r.requests, r.lost = 0, nil
}

// compare reads a body into a type of an SDK, writes that again, and names what differs.
func compare(body []byte, params any) []string {
	if err := json.Unmarshal(body, params); err != nil {
		return []string{"the SDK cannot read it: " + err.Error()}
	}
	again, err := json.Marshal(params)
	if err != nil {
		return []string{"the SDK cannot write it again: " + err.Error()}
	}
	var sent, written map[string]any
	if err := json.Unmarshal(body, &sent); err != nil {
		return []string{err.Error()}
	}
	if err := json.Unmarshal(again, &written); err != nil {
		return []string{err.Error()}
	}
	delete(sent, "stream") // the SDKs add it in the method that streams
	return differences("", sent, written)
}

// differences names the members and elements of sent that written does not have.
func differences(path string, sent, written any) (list []string) {
	switch sent := sent.(type) {
	case map[string]any:
		other, ok := written.(map[string]any)
		if !ok {
			break
		}
		for name, value := range sent {
			if _, ok := other[name]; !ok && value == nil {
				continue // null means the same
			} else if !ok {
				list = append(list, fmt.Sprintf("%s.%s is lost: %s", path, name, clip(value)))
				continue
			}
			list = append(list, differences(path+"."+name, value, other[name])...)
		}
		return list
	case []any:
		other, ok := written.([]any)
		if !ok || len(other) != len(sent) {
			break
		}
		for i := range sent {
			list = append(list, differences(path+"[]", sent[i], other[i])...)
		}
		return list
	case string: // the types of Anthropic have the long form of a text only
		if reflect.DeepEqual(written, []any{map[string]any{"type": "text", "text": sent}}) {
			return nil
		}
	}
	if !reflect.DeepEqual(sent, written) {
		return []string{fmt.Sprintf("%s is %s, not %s", path, clip(written), clip(sent))}
	}
	return nil
}

func clip(value any) string {
	text, _ := json.Marshal(value)
	return string(text[:min(len(text), 200)])
}
