package dialect

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee"
	"perigee/internal/lib/rawjson"
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

// CheckParts reads a part of a conversation, or a list of them. It returns an error for the first
// address of a medium that a server may open as a file of its own, and the path of that. Addresses
// are known by the names of their members, for parts of any type. Arguments of tools are skipped, and
// so are values of the wrong type, which are left to the provider.
func CheckParts(c *rawjson.Cursor) (path string, err error) { return checkMedia(c, anything) }

// CheckBody is CheckParts for a body that has members of parts itself, or lists of parts.
func CheckBody(c *rawjson.Cursor) (path string, err error) {
	for key := range c.Object() {
		if name := string(key); name == "messages" || name == "input" {
			if path, err = CheckParts(c); err != nil {
				return name + path, err
			}
		} else if path, err = CheckMember(c, key); err != nil {
			return path[1:], err
		}
	}
	return "", nil
}

// CheckMember is CheckParts for the value of a member of a part or a message.
func CheckMember(c *rawjson.Cursor, name []byte) (path string, err error) {
	switch m, ok := mediaMembers[string(name)]; {
	case ok && (!m.object || c.Kind() == rawjson.Object):
		path, err = checkMedia(c, m.as)
	case string(name) == "content", string(name) == "output":
		path, err = checkMedia(c, anything)
	}
	if err != nil {
		path = "." + string(name) + path
	}
	return path, err
}

// mediaMembers are the members with addresses of media.
var mediaMembers = map[string]struct {
	as     meaning
	object bool // it has addresses only if it is an object
}{
	"image_url": {as: address}, "file_url": {as: address}, "audio_url": {as: address}, "video_url": {as: address},
	"document_url": {as: address},
	"image":        {as: addressOrData}, "images": {as: addressOrData}, "mask": {as: addressOrData},
	"audio": {as: addressOrData}, "video": {as: addressOrData}, "file_data": {as: addressOrData},
	"input_audio": {as: addressOrData}, "input_video": {as: addressOrData}, "input_image_mask": {as: addressOrData},
	"file":    {as: addressOrData, object: true},
	"source":  {as: source, object: true},
	"outputs": {as: source}, // of a code interpreter
}

var mediaNames = rawjson.NewNames(slices.Collect(maps.Keys(mediaMembers))...)

// MayHaveMedia reports whether CheckParts may find an address in a text. If it returns false, the text
// has none.
func MayHaveMedia(text *rawjson.Document) bool { return text.MayHave(mediaNames) }

// A meaning is what the strings of a value are.
type meaning uint8

const (
	anything meaning = iota
	address
	addressOrData // of a medium, in base64
	source        // objects with an address, and with data that may be plain text
)

// checkMedia is CheckParts for a value with strings of a meaning.
func checkMedia(c *rawjson.Cursor, as meaning) (path string, err error) {
	switch c.Kind() {
	case rawjson.String:
		switch as {
		case address:
			err = checkAddress(c.Alias())
		case addressOrData:
			if text := c.Alias(); !isData(text) && checkAddress(text) != nil {
				err = errors.New("want base64, or a data: or https: URL")
			}
		}
	case rawjson.Array:
		for i := range c.Array() {
			if path, err = checkMedia(c, as); err != nil {
				return fmt.Sprintf("[%d]%s", i, path), err
			}
		}
	case rawjson.Object:
		for key := range c.Object() {
			switch name := string(key); {
			case as != anything && name == "url":
				path, err = checkMedia(c, address)
			case as == addressOrData && name == "data":
				path, err = checkMedia(c, addressOrData)
			default:
				path, err = CheckMember(c, key)
			}
			if err != nil {
				return path, err
			}
		}
	}
	return path, err
}

// checkAddress is CheckMedia for an address that may be missing.
func checkAddress(text string) error {
	if text == "" {
		return nil
	}
	return CheckMedia(text)
}

// maxPath is the length of the longest path that a server can open.
const maxPath = 4096

// isData reports whether a text is a medium in base64 and no path: many paths are valid base64. A text
// with a slash has to be a known kind of medium, or of text. If it is longer than any path, it must not
// begin with lower-case letters and slashes alone, which a server may join.
func isData(text string) bool {
	head := text[:min(len(text), 64)]
	for i := range len(head) {
		if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\r\n", head[i]) < 0 {
			return false
		}
	}
	if len(text) > maxPath {
		return strings.IndexByte(head, '/') < 0 || strings.ToLower(head) != head
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if strings.IndexByte(text, '/') >= 0 {
		return err == nil && isMedium(data)
	}
	for _, encoding := range [...]*base64.Encoding{base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		if err != nil {
			_, err = encoding.DecodeString(text)
		}
	}
	return err == nil
}

// isMedium reports whether data begins as a medium or an archive does, or is a text.
func isMedium(data []byte) bool {
	switch kind := http.DetectContentType(data); kind {
	case "application/octet-stream", "text/plain; charset=utf-8": // no known kind; any bytes without controls
		return isMPEG(data) || utf8.Valid(data)
	}
	return true
}

// isMPEG reports whether data begins with the header of a frame of MP3 or AAC.
func isMPEG(data []byte) bool {
	if len(data) < 4 || data[0] != 0xFF || data[1]&0xE0 != 0xE0 {
		return false
	}
	if data[1]&0xF6 == 0xF0 { // AAC
		return data[2]>>2&15 < 13
	}
	version, layer, bits, rate := data[1]>>3&3, data[1]>>1&3, data[2]>>4, data[2]>>2&3
	return version != 1 && layer != 0 && bits != 0 && bits != 15 && rate != 3
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
