package dialect

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

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
	"image":        {as: addressOrData}, "images": {as: addressOrData}, "file_data": {as: addressOrData},
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
			if text := c.Alias(); !isData(text) {
				err = checkAddress(text)
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

// isData reports whether a text is a medium in base64, by its beginning. Base64 begins with a slash,
// as a path does, only if the first byte of the medium is 0xFF.
func isData(text string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\r\n"
	for i := range min(len(text), 64) {
		if strings.IndexByte(plain, text[i]) < 0 {
			return false
		}
	}
	return len(text) < 2 || text[0] != '/' || strings.IndexByte("wxyz0123456789+/", text[1]) >= 0
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
