package anthropic

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A captured request of a real client. The files are described in internal/daemon/prooftests.
type captured struct {
	Name    string            `json:"name"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

func messagesOfClients(t testing.TB) []captured {
	t.Helper()
	files, err := filepath.Glob("../../daemon/testdata/captures/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	var list []captured
	for _, file := range files {
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(unpacked); ; {
			var c captured
			if err := lines.Decode(&c); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if strings.HasPrefix(c.Path, "/v1/messages") {
				c.Name = filepath.Base(file) + " " + c.Name
				list = append(list, c)
			}
		}
	}
	return list
}

// input returns the request as the simulator would get it: with a model that it has, and with its
// own signatures in place of those in the capture.
func (c captured) input() Input {
	body := bytes.ReplaceAll(c.Body, []byte(`gemini-2.5-pro`), []byte("claude-opus-5"))
	body = bytes.ReplaceAll(body, []byte(`c2lnbmF0dXJl`), []byte(exampleSigner.Sign("1", "Let me think about it.")))
	in := Input{Body: body, Version: c.Headers["anthropic-version"], Signer: exampleSigner}
	if betas := c.Headers["anthropic-beta"]; betas != "" {
		in.Betas = strings.Split(betas, ",")
	}
	if strings.Contains(c.Path, "count_tokens") {
		in.Method = Count
	}
	return in
}

func TestRequestsOfRealClientsPass(t *testing.T) {
	list := messagesOfClients(t)
	if len(list) < 20 {
		t.Fatalf("%d requests", len(list))
	}
	var before *Request
	for _, c := range list {
		in := c.input()
		in.Thread = func(string) ([]byte, bool) {
			id := parse(in.Body).get("messages").kids[0].get("content").kids[0].get("tool_use_id").text()
			return before.Answered([]byte(`[` + call(id) + `]`)), true
		}
		r, refusal := Check(in)
		if refusal != nil {
			t.Errorf("%s: refused by %s: %s", c.Name, refusal.Rule, refusal.Message)
			continue
		}
		before = r
	}
}

func FuzzCheck(f *testing.F) {
	for _, rule := range Table() {
		if rule.Pass.Grow+rule.Fail.Grow == 0 {
			f.Add([]byte(rule.Pass.Body), strings.Join(rule.Pass.Betas, ","), false)
			f.Add([]byte(rule.Fail.Body), strings.Join(rule.Fail.Betas, ","), true)
		}
	}
	for _, c := range messagesOfClients(f) {
		if in := c.input(); len(in.Body) < 8<<10 { // those of agents have 126 KB, which takes all the time
			f.Add(in.Body, strings.Join(in.Betas, ","), in.Method == Count)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, betas string, count bool) {
		in := Input{Body: body, Version: "2023-06-01", Betas: strings.Split(betas, ","), Signer: exampleSigner}
		in.Thread = func(string) ([]byte, bool) { return []byte(asked(declared).Body), true }
		if count {
			in.Method = Count
		}
		before := bytes.Clone(body)
		r, refusal := Check(in)
		if (r == nil) == (refusal == nil) {
			t.Fatalf("request %v, refusal %v", r, refusal)
		}
		if !bytes.Equal(before, body) {
			t.Error("the body was changed")
		}
		if refusal != nil {
			if body := refusal.Body("req_1"); refusal.Rule == "" || refusal.Message == "" || refusal.Status < 400 || !json.Valid(body) {
				t.Errorf("refusal %+v: %s", refusal, body)
			}
			return
		}
		if !json.Valid(r.Body) || r.Model.ID == "" || r.Tokens < 1 {
			t.Errorf("accepted %s", r.Body)
		}
		r.Thinks()
	})
}

func BenchmarkCheck(b *testing.B) {
	image := strings.Replace(imageOf, pixel, "iVBORw0KGgoA"+strings.Repeat("AAAA", 1<<20), 1)
	var turns []string
	for range 200 {
		turns = append(turns, user(said(strings.Repeat("word ", 100))), assistant(said(strings.Repeat("word ", 100))))
	}
	for name, in := range map[string]Input{
		"claude code": messagesOfClients(b)[0].input(),
		"400 turns":   asked("", append(turns, hi)...).Input(),
		"4MB image":   asked("", user(image)).Input(),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, refusal := Check(in); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
