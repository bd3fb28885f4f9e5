package dialect

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"perigee"
)

// MediaPart returns the part for the URL of a medium: a blob for a data URL, which it may alias, or a
// file for a URL on the web. fallback is the MIME type if the URL has none. The error describes the expected format.
func MediaPart(address, fallback string) (perigee.Part, error) {
	if blob, ok, err := DecodeDataURL(address, fallback); ok {
		return perigee.Part{Kind: perigee.PartBlob, Blob: blob}, err
	}
	if err := CheckMedia(address); err != nil {
		return perigee.Part{}, err
	}
	return FilePart(address, fallback), nil
}

// CheckMedia returns an error for an address of a medium that is neither a data URL nor on the web:
// some servers open a path as a file of their own. It reads no more than the scheme.
func CheckMedia(address string) error {
	for _, scheme := range [...]string{"data:", "https://", "http://", "gs://"} {
		if _, ok := cutScheme(address, scheme); ok {
			return nil
		}
	}
	return errors.New("want a data: or https: URL")
}

// FilePart returns a part that points at a URL. fallback is the MIME type for an unknown extension.
// The part does not alias the URL.
func FilePart(address, fallback string) perigee.Part {
	return perigee.Part{Kind: perigee.PartFile, File: &perigee.File{MIME: MIMEType(address, fallback), URI: strings.Clone(address)}}
}

// DecodeDataURL reads a data: URL; ok reports whether address is one. The data of the blob is
// base64, also if the URL has it in another form, and may alias the URL. fallback is the MIME type if
// the URL has none.
func DecodeDataURL(address, fallback string) (blob *perigee.Blob, ok bool, err error) {
	rest, ok := cutScheme(address, "data:")
	if !ok {
		return nil, false, nil
	}
	head, data, found := strings.Cut(rest, ",")
	if !found {
		return nil, true, errors.New("want a comma in the data: URL")
	}
	mime, parameters, _ := strings.Cut(head, ";")
	if mime == "" {
		mime = fallback
	}
	if !strings.HasSuffix(strings.ToLower(";"+parameters), ";base64") {
		plain, err := url.PathUnescape(data)
		if err != nil {
			return nil, true, errors.New("want base64 or valid percent signs in the data: URL")
		}
		data = base64.StdEncoding.EncodeToString([]byte(plain))
	}
	if data == "" {
		return nil, true, errors.New("want data in the data: URL")
	}
	return &perigee.Blob{MIME: strings.Clone(strings.ToLower(mime)), Data: data}, true, nil
}

// DataURL returns the data: URL of a blob.
func DataURL(b *perigee.Blob) string { return "data:" + b.MIME + ";base64," + b.Data }

// cutScheme removes the scheme of a URL, ignoring case.
func cutScheme(address, scheme string) (rest string, ok bool) {
	if len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
		return "", false
	}
	return address[len(scheme):], true
}

// MIMEType returns the MIME type for the extension of a file name or URL, or fallback.
func MIMEType(name, fallback string) string {
	if i := strings.IndexAny(name, "?#"); i >= 0 {
		name = name[:i]
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 || len(name)-dot > 6 {
		return fallback
	}
	if mime := types[strings.ToLower(name[dot+1:])]; mime != "" {
		return mime
	}
	return fallback
}

// types are the types that the models can read. The table of the system is not used, so that
// results do not depend on the machine.
var types = map[string]string{
	"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif",
	"heic": "image/heic", "heif": "image/heif", "bmp": "image/bmp", "avif": "image/avif",
	"pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown", "csv": "text/csv",
	"html": "text/html", "json": "application/json",
	"mp4": "video/mp4", "mov": "video/quicktime", "webm": "video/webm", "mpeg": "video/mpeg",
	"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "ogg": "audio/ogg",
	"opus": "audio/opus", "aac": "audio/aac", "aiff": "audio/aiff", "m4a": "audio/mp4",
}

// AudioType returns the MIME type of an audio format that OpenAI names.
func AudioType(format string) string {
	if format == "pcm16" {
		return "audio/pcm"
	}
	return MIMEType("."+format, "audio/"+strings.ToLower(format))
}
