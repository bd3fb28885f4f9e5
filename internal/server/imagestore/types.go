package imagestore

import "strings"

// otherwise is the extension of files that browsers should not display, such as images that can
// contain scripts.
const otherwise = ".bin"

// types maps the extensions of stored files to the media types that they are served with.
var types = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif", ".avif": "image/avif",
	".heic": "image/heic", ".bmp": "image/bmp",
	".wav": "audio/wav", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4",
	".mp4": "video/mp4", ".webm": "video/webm",
	otherwise: "application/octet-stream",
}

// extensionOf returns the extension for a type.
func extensionOf(mime string) string {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	mime = strings.TrimSpace(mime)
	if mime == "image/jpg" {
		return ".jpg"
	}
	for extension, known := range types {
		if known == mime {
			return extension
		}
	}
	return otherwise
}

// mimeOf returns the type of an image from its id.
func mimeOf(id string) string { return types[id[idLength:]] }
