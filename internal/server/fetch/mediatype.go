package fetch

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"perigee"
)

// maxType is how much of a type that a server made up is repeated.
const maxType = 60

// A verdict is what a medium is, and what its server called it; empty when that said nothing.
type verdict struct{ is, said string }

// mediaType decides what a medium is, from what its server calls it and from how it begins. They
// must agree as far as the bytes can tell. Between kinds of pictures the bytes are right, because
// the provider will look at them, too.
func mediaType(contentType string, head []byte) (verdict, error) {
	if len(head) == 0 {
		return verdict{}, refusal("it is empty")
	}
	said, _, _ := mime.ParseMediaType(contentType)
	looks, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	said, looks = usual(said), usual(looks)
	switch said {
	case "", "application/octet-stream", "binary/octet-stream":
		if !isReadable(looks) {
			return verdict{}, refusal("its server does not say what it is")
		}
		return verdict{is: looks}, nil
	}
	if !isReadable(said) {
		return verdict{}, refusal(fmt.Sprintf("it is %s, and only pictures, sounds, videos, PDF and plain text can be sent on", perigee.Clip(said, maxType)))
	}
	if !agree(said, looks) {
		return verdict{}, refusal(fmt.Sprintf("its server calls it %s, and it looks like %s", perigee.Clip(said, maxType), looks))
	}
	if family(said) == "image" && family(looks) == "image" {
		return verdict{is: looks, said: said}, nil
	}
	return verdict{is: said, said: said}, nil
}

// usual is the name that the provider has for a type of many names.
func usual(t string) string {
	switch t {
	case "image/jpg", "image/pjpeg":
		return "image/jpeg"
	case "audio/wave", "audio/x-wav", "audio/vnd.wave":
		return "audio/wav"
	}
	return t
}

// isReadable says whether models can make something of a type.
func isReadable(t string) bool {
	switch family(t) {
	case "image", "audio", "video":
		return true
	}
	return t == "application/pdf" || t == "text/plain"
}

// agree says whether bytes that look like one type can be of another. Many kinds of media look like
// nothing that Go knows, and containers do not show whether they hold pictures or sound only.
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
