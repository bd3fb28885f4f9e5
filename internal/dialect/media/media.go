package openai

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"perigee"
)

// mediaPart turns the URL of a medium into a part: the data itself where the URL carries it, a pointer where it
// stands on the web. fallback is the MIME type of what does not say its own.
func mediaPart(address, fallback string) (perigee.Part, error) {
	if rest, ok := cutScheme(address, "data:"); ok {
		blob, err := dataURL(rest, fallback)
		return perigee.Part{Kind: perigee.PartBlob, Blob: blob}, err
	}
	for _, scheme := range []string{"https://", "http://", "gs://"} {
		if _, ok := cutScheme(address, scheme); ok {
			file := &perigee.File{MIME: mimeOf(address, fallback), URI: address}
			return perigee.Part{Kind: perigee.PartFile, File: file}, nil
		}
	}
	return perigee.Part{}, errors.New("want a data: or https: URL")
}

// cutScheme cuts the beginning of a URL, whose case does not matter.
func cutScheme(address, scheme string) (rest string, ok bool) {
	if len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
		return "", false
	}
	return address[len(scheme):], true
}

// dataURL reads what follows data: in a URL. Data that is not base64 there becomes it.
func dataURL(rest, fallback string) (*perigee.Blob, error) {
	head, data, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, errors.New("want a comma in the data: URL")
	}
	mime, parameters, _ := strings.Cut(head, ";")
	if mime == "" {
		mime = fallback
	}
	if !strings.HasSuffix(strings.ToLower(";"+parameters), ";base64") {
		plain, err := url.PathUnescape(data)
		if err != nil {
			return nil, errors.New("want base64 or valid percent signs in the data: URL")
		}
		data = base64.StdEncoding.EncodeToString([]byte(plain))
	}
	if data == "" {
		return nil, errors.New("want data in the data: URL")
	}
	return &perigee.Blob{MIME: strings.ToLower(mime), Data: data}, nil
}

// mimeOf guesses a MIME type from the extension of a file's name or URL.
func mimeOf(name, fallback string) string {
	if i := strings.IndexAny(name, "?#"); i >= 0 {
		name = name[:i]
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 || len(name)-dot > 6 {
		return fallback
	}
	if mime := mimeTypes[strings.ToLower(name[dot+1:])]; mime != "" {
		return mime
	}
	return fallback
}

// mimeTypes are the types that the models can read. It is not the system's table, so that every machine
// translates alike.
var mimeTypes = map[string]string{
	"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif",
	"heic": "image/heic", "heif": "image/heif", "bmp": "image/bmp", "avif": "image/avif",
	"pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html", "json": "application/json",
	"mp4": "video/mp4", "mov": "video/quicktime", "webm": "video/webm", "mpeg": "video/mpeg",
	"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "ogg": "audio/ogg", "opus": "audio/opus", "aac": "audio/aac", "aiff": "audio/aiff", "m4a": "audio/mp4",
}

// audioMIME is the type of a sound in a format as this dialect names it.
func audioMIME(format string) string {
	if format == "pcm16" {
		return "audio/pcm"
	}
	return mimeOf("."+format, "audio/"+strings.ToLower(format))
}
