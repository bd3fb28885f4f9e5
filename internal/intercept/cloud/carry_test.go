package cloud

import (
	"strings"
	"testing"
)

// A call travels in the envelope of the language server, and the answer goes to both.
func TestCallInAnEnvelope(t *testing.T) {
	r := newCallRig(t, events(hello, calling))
	client, ls := r.call(Call{Model: "gemini-3-flash", Request: []byte(`{"contents":[{"role":"user","parts":[{"text":"hi"}]}], "sessionId":"-1","labels":{"a":"b"},"safetySettings":[1.50]}`)})
	want := `{"project":"project-ls","requestId":"agent/` + cascade + `/1763287200000/5d1a/1","request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"safetySettings":[1.50],` +
		`"labels":{"trajectory_id":"t-1","model_enum":"MODEL_PLACEHOLDER_M18"},"sessionId":"-3750763034362895579"},"model":"gemini-3-flash","userAgent":"antigravity","requestType":"agent"}`
	got := r.requests()[0]
	if got.body != want {
		t.Errorf("the cloud got %s\nwant %s", got.body, want)
	}
	if got.length != int64(len(want)) || got.uri != streamPath || got.host != strings.TrimPrefix(r.cloud.URL, "http://") {
		t.Errorf("the cloud got a length of %d for %s at %s", got.length, got.uri, got.host)
	}
	if h := got.header; h.Get("Proxy-Authorization") != "" || h.Get("Te") != "" || h.Get("X-Api") != "kept" {
		t.Errorf("the cloud got the header %v", h)
	}
	if h := got.header; h.Get("Authorization") != "Bearer token-of-the-language-server" || h.Get("User-Agent") != "antigravity/1.2.3 linux/amd64" || h.Get("Accept-Encoding") != "identity" {
		t.Errorf("the cloud got the header %v", h)
	}
	whole := "data: " + hello + "\r\n\r\ndata: " + calling + "\r\n\r\n"
	if client != whole {
		t.Errorf("the client got %s", client)
	}
	without := strings.Replace(whole, `{"functionCall":{"name":"read","args":{"path":"a"}},"thoughtSignature":"c2ln"}`, closing, 1)
	if ls.body != without || ls.err != nil || ls.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("the language server got %+v", ls)
	}
}
