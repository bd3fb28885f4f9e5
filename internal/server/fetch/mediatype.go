package fetch

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"perigee"
)

// maxType is the maximum length of a declared type in an error.
const maxType = 60

// A detection is the media type of a medium, and the one that its server declared; empty if it
// declared none.
type detection struct{ is, declared string }

// mediaType determines the media type from the Content-Type and the first bytes. It returns an
// error if they contradict each other. For different image types the bytes take precedence, because
// the provider inspects them as well.
func mediaType(contentType string, head []byte) (detection, error) {
	if len(head) == 0 {
		return detection{}, refusal("it is empty")
	}
	said, _, _ := mime.ParseMediaType(contentType)
	looks, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	said, looks = usual(said), usual(looks)
	switch said {
	case "", "application/octet-stream", "binary/octet-stream":
		if !isReadable(looks) {
			return detection{}, refusal("its server does not say what it is")
		}
		return detection{is: looks}, nil
	}
	if !isReadable(said) {
		return detection{}, refusal(fmt.Sprintf("it is %s, and only pictures, sounds, videos, PDF and plain text can be sent on", perigee.Clip(said, maxType)))
	}
	if !agree(said, looks) {
		return detection{}, refusal(fmt.Sprintf("its server calls it %s, and it looks like %s", perigee.Clip(said, maxType), looks))
	}
	if family(said) == "image" && family(looks) == "image" {
		return detection{is: looks, declared: said}, nil
	}
	return detection{is: said, declared: said}, nil
}

// usual returns the name that the provider uses for a type with several names.
func usual(t string) string {
	switch t {
	case "image/jpg", "image/pjpeg":
		return "image/jpeg"
	case "audio/wave", "audio/x-wav", "audio/vnd.wave":
		return "audio/wav"
	}
	return t
}

// isReadable reports whether models accept a type.
func isReadable(t string) bool {
	switch family(t) {
	case "image", "audio", "video":
		return true
	}
	return t == "application/pdf" || t == "text/plain"
}

// agree reports whether bytes detected as one type can be of the declared one. Go does not detect
// many media types, and containers do not show whether they hold video or only audio.
func agree(said, looks string) bool {
	switch family(said) {
	case "text":
		return family(looks) == "text"
	case "application":
		return looks == said
	case "image":
		return family(looks) == "image" || looks == "application/octet-stream"
	}
	return family(looks) == "audio" || family(looks) == "video" || looks == "application/ogg" || looks == "application/octet-stream"
}

func family(t string) string {
	f, _, _ := strings.Cut(t, "/")
	return f
}
