package cloud

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"perigee/internal/lib/rawjson"
)

// methodOf returns the method of the cloud that a request calls, in lower case, or "" if it calls
// none.
func methodOf(r *http.Request) string {
	if r.Method != http.MethodPost {
		return ""
	}
	return strings.ToLower(r.URL.Path[strings.LastIndexAny(r.URL.Path, ":/")+1:])
}

// isGeneration reports whether a method calls a model.
func isGeneration(method string) bool {
	return method == "streamgeneratecontent" || method == "generatecontent"
}

// isTelemetry reports whether a method only sends data to the cloud: recordCodeAssistMetrics,
// recordTrajectoryAnalytics, recordClientEvent and similar ones.
func isTelemetry(method string) bool { return strings.HasPrefix(method, "record") }

// answerTelemetry answers with an empty success, in the content type that the caller expects. It
// returns false if there is no empty message of that type.
func answerTelemetry(w http.ResponseWriter, r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if accept, _, _ := mime.ParseMediaType(r.Header.Get("Accept")); hasEmpty(accept) {
		kind = accept
	}
	if !hasEmpty(kind) {
		return false
	}
	// so that the connection can be reused
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxBody))
	w.Header().Set("Content-Type", kind)
	if kind == "application/json" {
		_, _ = io.WriteString(w, "{}")
	}
	return true
}

// hasEmpty reports whether there is an empty message of a content type. Messages with envelopes or
// trailers are not supported.
func hasEmpty(kind string) bool {
	switch kind {
	case "application/json", "application/x-protobuf", "application/protobuf", "application/proto":
		return true
	}
	return false
}

// answerNothing answers a request to a model with an empty text, in the requested form. It ends
// the turn of a language server and costs nothing.
func answerNothing(w http.ResponseWriter, r *http.Request, e *envelope) {
	text := rawjson.Writer{}
	text.Lit(`{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":0,"candidatesTokenCount":0,"totalTokenCount":0}`)
	if e.model.isString(e.text) {
		text.Key("modelVersion").Raw(e.model.of(e.text))
	}
	text.Lit("}}")
	before, after, kind := "", "", "application/json"
	switch {
	case r.URL.Query().Get("alt") == "sse":
		before, after, kind = "data: ", "\r\n\r\n", "text/event-stream"
	case methodOf(r) == "streamgeneratecontent":
		before, after = "[", "]"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, before+string(text.Buf)+after)
}
