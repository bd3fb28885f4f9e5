package flows

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/andybalholm/brotli"

	"perigee/internal/lib/redact"
)

// maxDecoded is the maximum number of decoded bytes of a body that are counted. A small body can
// expand to a thousand times its size.
const maxDecoded = 64 << 20

// truncated is the comment about a body with a missing end.
const truncated = "truncated"

// A body is a recording without secrets, in the form of the HAR file.
type body struct {
	text     string
	encoding string // base64, for content that is not text
	comment  string
	size     int64 // decoded
	whole    bool  // size is the size of the whole body
	form     bool  // text is a form
}

// decode returns a recording in the form in which it is shown: without its Content-Encoding, as
// text if it is text, and without secrets, including the known ones. A body with an unknown
// encoding is left out, because it cannot be searched for secrets.
func decode(r *recording, header http.Header, known *redact.Redactor) (b body) {
	data, ok := r.data, true
	b.size, b.whole = r.size, !r.cut
	cut := r.cut
	for _, encoding := range encodings(header) {
		var rest int64
		if data, rest, ok = unpack(data, encoding); !ok {
			b.comment = "not recorded: the encoding " + encoding + " is not supported, and secrets in it would not be found"
			return b
		}
		b.size, cut = int64(len(data))+rest, cut || rest > 0
		b.whole = b.whole && b.size < maxDecoded
	}
	if cut {
		b.comment = truncated
	}
	if len(data) == 0 {
		return b
	}
	media, params, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if frames(media) {
		data = unframe(data, header)
	}
	text, isText := asText(data, params["charset"], cut)
	switch {
	case !isText:
		b.text, b.encoding = base64.StdEncoding.EncodeToString(known.Bytes(redact.Binary(data))), "base64"
		return b
	case media == "application/x-www-form-urlencoded":
		b.text, b.form = redact.Query(text), true
	case strings.HasPrefix(media, "multipart/"):
		b.text = string(redact.Content([]byte(parts(text, params["boundary"]))))
	default:
		b.text = string(redact.Content([]byte(text)))
	}
	b.text = known.Text(b.text)
	return b
}

// encodings returns the encodings of a body, the outermost first.
func encodings(header http.Header) (list []string) {
	for _, value := range header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				list = append([]string{name}, list...)
			}
		}
	}
	return list
}

// unpack decodes data, which may be cut off, up to maxBody bytes, and counts the remaining ones.
// It returns data unchanged if they do not have their declared encoding.
func unpack(data []byte, encoding string) (plain []byte, rest int64, ok bool) {
	var from io.Reader
	var err error
	switch encoding {
	case "gzip", "x-gzip":
		from, err = gzip.NewReader(bytes.NewReader(data))
	case "deflate":
		if from, err = zlib.NewReader(bytes.NewReader(data)); err != nil {
			from, err = flate.NewReader(bytes.NewReader(data)), nil // some servers use it for this
		}
	case "br":
		from = brotli.NewReader(bytes.NewReader(data))
	default:
		return nil, 0, false
	}
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, 0, true
		}
		return data, 0, true
	}
	plain, _ = io.ReadAll(io.LimitReader(from, maxBody)) // the part that can be decoded
	if len(plain) == maxBody {
		rest, _ = io.Copy(io.Discard, io.LimitReader(from, maxDecoded-maxBody))
	}
	return plain, rest, true
}

// asText returns data as UTF-8 if they are text. With cut, the last character may be incomplete.
func asText(data []byte, charset string, cut bool) (string, bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		return fromUTF16(data[2:], binary.LittleEndian), true
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		return fromUTF16(data[2:], binary.BigEndian), true
	}
	if cut {
		for i := 1; i <= min(utf8.UTFMax-1, len(data)); i++ {
			if c := data[len(data)-i]; utf8.RuneStart(c) {
				if !utf8.FullRune(data[len(data)-i:]) {
					data = data[:len(data)-i]
				}
				break
			}
		}
	}
	for _, c := range data {
		if c < ' ' && strings.IndexByte("\t\n\v\f\r\b\x1b", c) < 0 {
			return "", false
		}
	}
	switch charset = strings.ToLower(charset); {
	case utf8.Valid(data):
		return string(data), true
	case charset == "iso-8859-1" || charset == "latin1" || charset == "windows-1252":
		runes := make([]rune, len(data))
		for i, c := range data {
			runes[i] = rune(c)
		}
		return string(runes), true
	}
	return "", false
}

func fromUTF16(data []byte, order binary.ByteOrder) string {
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return string(utf16.Decode(units))
}

// frames reports whether bodies of a media type are messages with an envelope: a byte of flags and
// four of length.
func frames(media string) bool {
	return strings.HasPrefix(media, "application/connect+") || strings.HasPrefix(media, "application/grpc") && !strings.Contains(media, "-text")
}

// unframe returns the messages of a stream without secrets and uncompressed, each with an envelope
// of its new length.
func unframe(data []byte, header http.Header) []byte {
	const head, compressed = 5, 1
	encoding := strings.ToLower(header.Get("Connect-Content-Encoding") + header.Get("Grpc-Encoding"))
	var out []byte
	for len(data) >= head {
		flags, size := data[0], int(binary.BigEndian.Uint32(data[1:head]))
		message := data[head:]
		if size < len(message) {
			message = message[:size]
		}
		data = data[head+len(message):]
		if flags&compressed != 0 {
			plain, _, ok := unpack(message, encoding)
			if !ok {
				plain = []byte(redact.Value)
			}
			message, flags = plain, flags&^compressed
		}
		message = redact.Binary(message)
		out = append(out, flags)
		out = binary.BigEndian.AppendUint32(out, uint32(len(message)))
		out = append(out, message...)
	}
	return append(out, data...)
}

// parts replaces the parts of a multipart form that have the names of secrets.
func parts(text, boundary string) string {
	if boundary == "" {
		return text
	}
	sections := strings.Split(text, "--"+boundary)
	for i, section := range sections {
		head, content, ok := strings.Cut(section, "\r\n\r\n")
		_, name, named := strings.Cut(head, `name="`)
		if name, _, _ = strings.Cut(name, `"`); !ok || !named || !redact.IsParameter(name) {
			continue
		}
		end := ""
		if strings.HasSuffix(content, "\r\n") {
			end = "\r\n"
		}
		sections[i] = head + "\r\n\r\n" + redact.Value + end
	}
	return strings.Join(sections, "--"+boundary)
}
