package dialect

import "testing"

func TestPart(t *testing.T) {
	for _, c := range []struct{ name, address, mime, content, problem string }{
		{"base64", "data:image/png;base64,aGk=", "image/png", "aGk=", ""},
		{"parameters and case", "DATA:Text/Plain;charset=utf-8;BASE64,aGk=", "text/plain", "aGk=", ""},
		{"percent signs", "data:text/plain,a%20b", "text/plain", "YSBi", ""},
		{"no type", "data:;base64,aGk=", "image/jpeg", "aGk=", ""},
		{"no comma", "data:image/png;base64", "", "", "want a comma in the data: URL"},
		{"no data", "data:image/png;base64,", "", "", "want data in the data: URL"},
		{"half a percent sign", "data:text/plain,%2", "", "", "want base64 or valid percent signs in the data: URL"},
		{"on the web", "https://example.org/a.PNG?size=1.5", "image/png", "https://example.org/a.PNG?size=1.5", ""},
		{"with a fragment", "http://example.org/a.pdf#page=2", "application/pdf", "http://example.org/a.pdf#page=2", ""},
		{"in a bucket", "gs://bucket/a", "image/jpeg", "gs://bucket/a", ""},
		{"of an unknown kind", "https://example.org/archive.tar", "image/jpeg", "https://example.org/archive.tar", ""},
		{"elsewhere", "file:///etc/passwd", "", "", "want a data: or https: URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := MediaPart(c.address, "image/jpeg")
			switch {
			case err != nil:
				if err.Error() != c.problem {
					t.Errorf("got %v, want %q", err, c.problem)
				}
			case p.Blob != nil && (p.Blob.MIME != c.mime || p.Blob.Data != c.content || c.problem != ""):
				t.Errorf("got %+v", *p.Blob)
			case p.File != nil && (p.File.MIME != c.mime || p.File.URI != c.content || c.problem != ""):
				t.Errorf("got %+v", *p.File)
			}
		})
	}
}

func TestAudioType(t *testing.T) {
	for format, want := range map[string]string{"pcm16": "audio/pcm", "MP3": "audio/mpeg", "wav": "audio/wav", "Novel": "audio/novel"} {
		if got := AudioType(format); got != want {
			t.Errorf("%s is %s, want %s", format, got, want)
		}
	}
}
