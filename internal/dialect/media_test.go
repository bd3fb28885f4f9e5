package dialect

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"perigee/internal/lib/rawjson"
)

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

// Media at addresses that a server may open as a file of its own are found wherever a provider might
// look for them, and nothing else is refused.
func TestPartsWithAddresses(t *testing.T) {
	forms := map[string]string{
		"":                                     `{"type":"text","text":"file:///etc/passwd"}`,
		"[0].content[0].image_url":             `[{"role":"user","content":[{"type":"image_url","image_url":{"detail":"low","url":"@"}}]}]`,
		"[1].content.image_url":                `[{"content":"x"},{"content":{"type":null,"image_ur\u006c":"@"}}]`,
		".content[1].image_url":                `{"content":["file:///x",{"type":"IMAGE","image_url":"@"}]}`,
		".content[0].audio_url":                `{"content":[{"audio_url":{"url":"@"}}]}`,
		".content[0].video_url":                `{"content":[{"type":"input_video","video_url":"@"}]}`,
		".content[0].file_url":                 `{"content":[{"type":"input_file","file_url":"@"}]}`,
		".content[0].document_url":             `{"content":[{"type":"document_url","document_url":"@"}]}`,
		".content[0].file.file_url":            `{"content":[{"type":"file","file":{"filename":"./x","file_url":"@"}}]}`,
		".content[0].file.file_data":           `{"content":[{"type":"file","file":{"file_data":"@"}}]}`,
		".content[0].file_data":                `{"content":[{"type":"input_file","file_data":"@"}]}`,
		".content[0].input_audio":              `{"content":[{"input_audio":{"data":"@","format":"wav"}}]}`,
		".content[0].input_video":              `{"content":[{"input_video":{"url":"@"}}]}`,
		".content[0].image":                    `{"content":[{"type":"image","image":"@"}]}`,
		".images[1]":                           `{"images":["aGk=","@"]}`,
		".content[0].image_url[0]":             `{"content":[{"image_url":[{"url":"@"}]}]}`,
		".content[0].source":                   `{"content":[{"type":"image","source":{"type":"url","url":"@"}}]}`,
		".content[0].content[0].source":        `{"content":[{"type":"tool_result","content":[{"type":"document","source":{"url":"@"}}]}]}`,
		".content[0].source.content[0].source": `{"content":[{"source":{"type":"content","content":[{"source":{"url":"@"}}]}}]}`,
		".output.image_url":                    `{"type":"computer_call_output","output":{"image_url":"@"}}`,
		".output[0].image_url":                 `{"output":[{"type":"input_image","image_url":"@"}]}`,
		".content[0].video[1]":                 `{"content":[{"type":"video","video":["https://x.example/1.png","@"]}]}`,
		".content[0].audio":                    `{"content":[{"type":"audio","audio":"@"}]}`,
		".mask":                                `{"image":"https://x.example/1.png","mask":"@"}`,
		".outputs[0]":                          `{"outputs":[{"type":"image","url":"@"}]}`,
		".image_url":                           `{"type":"input_image","image_url":"@"}`,
		".input_image_mask.image_url":          `{"input_image_mask":{"image_url":"@"}}`,
	}
	check := func(body string) (string, error) {
		path, err := CheckParts(rawjson.NewCursor([]byte(body)))
		if text, wrong := rawjson.Open([]byte(body), nil); wrong != nil || err != nil && !MayHaveMedia(text) {
			t.Errorf("%s: a text without media, %v", body, wrong)
		}
		return path, err
	}
	for want, form := range forms {
		for _, bad := range []string{"/etc/passwd", "file:///etc/passwd", "FILE:/x", "./a.png", " http://x/y", "\\u0000file:///x", "C:\\\\x.png", "ftp://x",
			"http:/etc", "\\u0066ile:///x", "~/x", "/proc/self/environ"} {
			path, err := check(strings.ReplaceAll(form, "@", bad))
			if path != want || (err == nil) != (want == "") {
				t.Errorf("%s in %s: %q, %v, want %q", bad, form, path, err, want)
			}
		}
		for _, good := range []string{"data:image/png;base64,aGk=", "https://x.example/a.png", "HTTP://x.example", "gs://bucket/a", ""} {
			if path, err := check(strings.ReplaceAll(form, "@", good)); err != nil {
				t.Errorf("%s in %s: %q, %v", good, form, path, err)
			}
		}
	}
	for _, body := range []string{
		`{"content":[{"type":"input_audio","input_audio":{"data":"//uQxAAAAAAAAAAAAAAAAAA=","format":"mp3"}}],"images":["/9j/4AAQ"]}`,
		`{"content":[{"type":"file","file":{"file_id":"file-1","filename":"/a/b.pdf"}},{"type":"image","source":{"type":"file","file_id":"f"}}]}`,
		`{"content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"./a: b"}}]}`,
		`{"content":[{"type":"search_result","source":"docs/a.md","content":[{"type":"text","text":"t"}]}]}`,
		`{"content":[{"type":"tool_use","id":"t","name":"f","input":{"image_url":"./a.png","source":{"url":"/x"},"content":[{"image_url":"x"}]}}]}`,
		`{"content":null,"tool_calls":[{"function":{"name":"f","arguments":{"image_url":"./a.png"}}}]}`,
		`{"type":"function_call_output","output":"{\"image_url\":\"./a.png\"}"}`,
		`{"content":[{"type":"output_text","text":"t","annotations":[{"type":"url_citation","url":"x"}]}],"image_url":7,"file_url":null}`,
		`"file:///x"`, `["file:///x",null,1]`,
	} {
		if path, err := check(body); err != nil {
			t.Errorf("%s: %q, %v", body, path, err)
		}
	}
}

// Paths are refused where base64 is expected, also those that are valid base64 by their letters.
func TestPathsAreNoBase64(t *testing.T) {
	long := strings.Repeat("/", 5000)
	for _, path := range []string{"//etc/passwd", "/etc/passwd", "/work/id_rsa", "/www/html/a", "etc/passwd", "etc///passwd", "/var/log", "/Users/a",
		"/proc/self/root/etc/passwd", long + "etc/passwd", "/proc/self/root" + long + "etc/passwd", "etc" + long + "passwd", "a.png", "C:/x", "~/x", "x y"} {
		if isData(path) {
			t.Errorf("%.80s passes for base64", path)
		}
	}
	encode := base64.StdEncoding.EncodeToString
	big := func(begin string) string { return encode(append([]byte(begin), make([]byte, 4000)...)) }
	for _, data := range []string{"", "aGk=", "aGk", "//uQxAAAAAAAAAAAAAAAAAA=", "/9j/4AAQ", "_9j_4AAQ", encode([]byte("Why? Who? How? Ah?>>>?")),
		encode([]byte("\xfe\xff\x00a\x00b")), encode([]byte("\xff\xf1\x50\x80\x2e\x7f")), encode([]byte("%PDF-1.7 \xff\xff\xff")), encode([]byte("PK\x03\x04\xff\xff\xff")),
		big("\xff\xff\xff\xff"), big("\xfd7zXZ\x00"), big("\xfc\x00"), encode(bytes.Repeat([]byte("\xff\xff\x01\x00"), 2000)), encode([]byte("a\nb"))[:4] + "\r\n"} {
		if !isData(data) {
			t.Errorf("%.80s is refused", data)
		}
	}
}
