package gemini

import (
	"bytes"
	"encoding/base64"
	"strings"

	"perigee/internal/lib/rawjson"
)

// wrapped is the beginning of a signature that is not base64 itself. It is base64 of nine bytes, so
// that the rest can be decoded apart from it.
const wrapped = "cGVyaWdlZTpz" // perigee:s

// wrapSignature returns a signature in the form of this API, where it has bytes in base64: Google's
// library for Go fails to read anything else. Sealed reasoning of other providers may be in the
// alphabet for URLs, or no base64 at all.
func wrapSignature(signature string) string {
	if isBase64(signature) {
		return signature
	}
	return wrapped + base64.StdEncoding.EncodeToString([]byte(signature))
}

// unwrapSignature undoes wrapSignature.
func unwrapSignature(signature string) string {
	if rest, ok := strings.CutPrefix(signature, wrapped); ok {
		if original, err := base64.StdEncoding.DecodeString(rest); err == nil {
			return string(original)
		}
	}
	return signature
}

// UnwrapSignatures returns a body for the provider without the wrapping of its signatures, and body
// itself if none is wrapped. It is for bodies that are forwarded.
func UnwrapSignatures(body []byte) []byte {
	var edits []rawjson.Edit
	quoted := []byte(`"` + wrapped)
	for at := 0; ; {
		found := bytes.Index(body[at:], quoted)
		if found < 0 {
			break
		}
		start := at + found
		length := bytes.IndexByte(body[start+1:], '"')
		if length < 0 {
			break
		}
		at = start + length + 2
		name, ok := bytes.CutSuffix(bytes.TrimRight(body[:start], " \t\r\n"), []byte(":"))
		if !ok || !bytes.HasSuffix(bytes.TrimRight(name, " \t\r\n"), []byte(`ignature"`)) {
			continue
		}
		if text := string(body[start+1 : at-1]); unwrapSignature(text) != text {
			edits = append(edits, rawjson.Edit{Start: start, End: at, New: rawjson.AppendString(nil, unwrapSignature(text))})
		}
	}
	if len(edits) == 0 {
		return body
	}
	return rawjson.Splice(body, edits...)
}

// isBase64 reports whether text is base64 in its standard alphabet, with padding.
func isBase64(text string) bool {
	body := strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	return len(text)%4 == 0 && !strings.ContainsFunc(body, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '/'
	})
}
