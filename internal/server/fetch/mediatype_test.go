package fetch

import (
	"strings"
	"testing"
)

const (
	png  = "\x89PNG\x0D\x0A\x1A\x0A rest"
	jpeg = "\xFF\xD8\xFF rest"
	pdf  = "%PDF-1.7 rest"
	mp4  = "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
	ogg  = "OggS\x00 rest"
	wav  = "RIFF\x24\x00\x00\x00WAVEfmt "
	odd  = "\x00\x01\x02\x03\x04\x05"
	html = "<!DOCTYPE html><html>"
)

func TestWhatAMediumIs(t *testing.T) {
	tests := []struct {
		said, head string
		want       string // the type, or ! and a part of the error
		was        string // what the server called it
	}{
		{"image/png", png, "image/png", "image/png"},
		{"IMAGE/PNG; charset=binary", png, "image/png", "image/png"},
		{"image/jpeg", png, "image/png", "image/jpeg"},
		{"image/jpg", jpeg, "image/jpeg", "image/jpeg"},
		{"image/heic", odd, "image/heic", "image/heic"},
		{"", jpeg, "image/jpeg", ""},
		{"application/octet-stream", pdf, "application/pdf", ""},
		{"binary/octet-stream", wav, "audio/wav", ""},
		{"not a type", png, "image/png", ""},
		{"application/pdf", pdf, "application/pdf", "application/pdf"},
		{"text/plain; charset=utf-8", "hello", "text/plain", "text/plain"},
		{"text/plain", html, "text/plain", "text/plain"},
		{"audio/ogg", ogg, "audio/ogg", "audio/ogg"},
		{"audio/mp4", mp4, "audio/mp4", "audio/mp4"},
		{"video/mp4", mp4, "video/mp4", "video/mp4"},
		{"audio/x-wav", wav, "audio/wav", "audio/wav"},

		{"text/html", html, "!only pictures", ""},
		{"application/json", "{}", "!it is application/json", ""},
		{"image/svg+xml", `<?xml version="1.0"?><svg/>`, "!looks like text/xml", ""},
		{"image/png", html, "!looks like text/html", ""},
		{"image/png", "AWS_KEY=secret", "!looks like text/plain", ""},
		{"application/pdf", html, "!looks like text/html", ""},
		{"text/plain", png, "!looks like image/png", ""},
		{"video/mp4", png, "!looks like image/png", ""},
		{"", html, "!does not say what it is", ""},
		{"application/octet-stream", odd, "!does not say what it is", ""},
		{"image/png", "", "!it is empty", ""},
		{"x/" + strings.Repeat("y", 500), odd, "!…", ""},
	}
	for _, test := range tests {
		got, err := mediaType(test.said, []byte(test.head))
		part, wrong := strings.CutPrefix(test.want, "!")
		switch {
		case wrong && (err == nil || !strings.Contains(err.Error(), part) || len(err.Error()) > 200):
			t.Errorf("%q, %.10q: got %v, %v; want an error with %q", test.said, test.head, got, err, part)
		case !wrong && (err != nil || got != detection{test.want, test.was}):
			t.Errorf("%q, %.10q: got %v, %v; want %s", test.said, test.head, got, err, test.want)
		}
	}
}
