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
	// Few texts have the byte Z, so that a search for these is several times faster than one that
	// begins with a quote.
	const quoted = `"` + wrapped
	last := quoted[len(quoted)-4:] // ZTpz
	var edits []rawjson.Edit
	for at := 0; ; {
		found := bytes.Index(body[at:], []byte(last))
		if found < 0 {
			break
		}
		at += found + len(last)
		start := at - len(quoted)
		length := bytes.IndexByte(body[at:], '"')
		if length < 0 {
			break
		}
		if start < 0 || string(body[start:at]) != quoted || !namesSignature(body[:start]) {
			continue
		}
		end := at + length
		if text := string(body[start+1 : end]); unwrapSignature(text) != text {
			edits = append(edits, rawjson.Edit{Start: start, End: end + 1, New: rawjson.AppendString(nil, unwrapSignature(text))})
		}
	}
	if len(edits) == 0 {
		return body
	}
	return rawjson.Splice(body, edits...)
}

// namesSignature reports whether the text before a value ends with the name of a signature.
func namesSignature(before []byte) bool {
	name, ok := bytes.CutSuffix(bytes.TrimRight(before, " \t\r\n"), []byte(":"))
	return ok && bytes.HasSuffix(bytes.TrimRight(name, " \t\r\n"), []byte(`ignature"`))
}

// isBase64 reports whether text is base64 in its standard alphabet, with padding.
func isBase64(text string) bool {
	body := strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	return len(text)%4 == 0 && !strings.ContainsFunc(body, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '/'
	})
}
