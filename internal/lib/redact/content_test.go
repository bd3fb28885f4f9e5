package redact

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// The canary is wherever a credential can be in HTTP. No form may leave it, or any part of it.
func TestRecordingsHaveNoCanary(t *testing.T) {
	const canary = "hunter2,c4nary"
	for _, text := range []string{
		`{"access_token":"C"}`, `{"access_token" :  "C", "x": 1}`, "{\n\t\"refresh_token\":\n\t\"C\"\n}", `{"accessToken":"C"}`,
		`{"a":{"b":[{"id_token":"C"}]}}`, `{"client_secret":"C"`, `{"api_key":"a \"quoted\" C"}`, `{"password":"two words C"}`,
		`{"password":"ends in a backslash C\\","x":1}`, `{"access\u005ftoken":"C"}`, `{"API-Key":"C"}`, `{"apiKeys":["x","C"]}`,
		`{"cookies":[{"name":"a","value":"C"}]}`, `{"private_key":"-----BEGIN\nC\n"}`, `{"password":["C`, `{"x-goog-api-key":"C"}`,
		`{"token":{"access_token":"C"}}`, `{"authorization":"Bearer C"}`, `{'password': 'C'}`, `{password: "C"}`, `{password:'C'}`,
		`{"text":"{\"refresh_token\":\"C\",\"a\":1}"}`, `{"text":"{\"password\": \"a \\\" C\"}"}`, `{"t":"{\"u\":\"{\\\"id_token\\\":\\\"C\\\"}\"}"}`,
		`{"text":"{\u0022refresh_token\u0022:\u0022C\u0022}"}`, `{"text":"{\"client_secret\":[\"C\"]}"}`, `{"t":"{\"password\":\"C"}`,
		`{"url":"https://x.example/?key=C&a=1"}`, `{"url":"https://x.example/?a=1\u0026key=C"}`, `{"url":"https:\/\/x.example\/?access_token=C\u0026a=1"}`,
		`{"headers":[{"name":"Authorization","value":"C"}]}`, `{"attributes":[{"key":"http.request.header.cookie","value":{"stringValue":"C"}}]}`,
		"data: {\"access_token\":\"C\"}\n\n", "data: it is 5\" long\r\ndata: {\"x\":1,\"access_token\":\"C\"}\r\n\r\n",
		"Authorization: Digest C\r\nHost: x", "cookie: a=C; b=C; c=C\nHost: x", `{"text":"Set-Cookie: a=C; b=C\nnext"}`, "password: C", "password = C",
		"grant_type=refresh_token&refresh_token=C", "go to https://x.example/?continue=https%3A%2F%2Fy.example%2F%3Faccess_token%3DC",
		"<login><password>C</password></login>", `<ns:apiKey type="x">C</ns:apiKey>`, "<password>C", "\x00\x00\x00\x00\x1e{\"access_token\":\"C\"}",
		"access_token%3DC%26a%3D1", `window.token="C"`, "see ya29.C", "key AIzaC", "it is 1//C", `"1\/\/C"`, "ghp_C", "Bearer C", "bearer%20C",
		"Basic aHVudGVyMjpjNG5hcnk=", `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c4nary`, `{"password":123456}`,
	} {
		value := canary
		for _, form := range []string{"ya29.", "AIza", "1//", `1\/\/`, "ghp_", "earer ", "earer%20"} {
			if strings.Contains(text, form+"C") {
				value = strings.ReplaceAll(canary, ",", ".")
			}
		}
		text = strings.ReplaceAll(text, "C", "\x01")
		text = strings.NewReplacer("\x01ookie", "Cookie", "\x01", value).Replace(text)
		got := string(Content([]byte(text)))
		for _, part := range []string{"hunter2", "c4nary", "aHVudGVy", "123456", "eyJzdWIi"} {
			if strings.Contains(got, part) {
				t.Errorf("%s\nbecomes %s", text, got)
			}
		}
		if !strings.Contains(got, Value) {
			t.Errorf("%s\nbecomes %s", text, got)
		}
		if json.Valid([]byte(text)) && !json.Valid([]byte(got)) {
			t.Errorf("%s\nbecomes %s, which is no JSON", text, got)
		}
	}
}

func TestRecordingsKeepTheRest(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"access_token":"x","b":"y"}`:                                   `{"a":1,"access_token":"REDACTED","b":"y"}`,
		`{"t":"{\"id_token\":\"x\",\"b\":1}","c":2}`:                           `{"t":"{\"id_token\":\"REDACTED\",\"b\":1}","c":2}`,
		`{"t":"{\"password\":7}"}`:                                             `{"t":"{\"password\":\"REDACTED\"}"}`,
		`{"password":null,"secret":true,"token":""}`:                           `{"password":null,"secret":true,"token":""}`,
		`{"properties":{"password":{"type":"string"}}}`:                        `{"properties":{"password":{"type":"string"}}}`,
		`{"nextPageToken":"x","totalTokens":5,"token_uri":"u"}`:                `{"nextPageToken":"x","totalTokens":5,"token_uri":"u"}`,
		`{"key":"uss-oauth","code":7,"usage":{"prompt_tokens":1}}`:             `{"key":"uss-oauth","code":7,"usage":{"prompt_tokens":1}}`,
		`{"headers":[{"name":"Cookie","value":"x"},{"name":"A","value":"y"}]}`: `{"headers":[{"name":"Cookie","value":"REDACTED"},{"name":"A","value":"y"}]}`,
		"the basic structure of bearer certificates. A monkey=1":               "the basic structure of bearer certificates. A monkey=1",
		"https://x.example/?a=1&key=x&b=2#c":                                   "https://x.example/?a=1&key=REDACTED&b=2#c",
		"Password:\nnot this":                                                  "Password:\nnot this",
		"cookie: a=b; c=d\r\nhost: x":                                          "cookie: REDACTED\r\nhost: x",
		"":                                                                     "",
		"\x00\xff\xfe:=\"":                                                     "\x00\xff\xfe:=\"",
	} {
		if got := string(Content([]byte(text))); got != want {
			t.Errorf("%q becomes\n%q, want\n%q", text, got, want)
		}
	}
	if got, want := string(Binary([]byte("\x0a\x30ya29.abcdefghijklmno\x12"))), "\x0a\x30REDACTED************\x12"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHeadersAndURLs(t *testing.T) {
	for _, c := range [][3]string{
		{"Authorization", "Bearer x", Value}, {"proxy-authorization", "x", Value}, {"Cookie", "a=b", Value}, {"Set-Cookie", "a=b; Path=/", Value},
		{"X-Goog-Api-Key", "x", Value}, {"x-api-key", "x", Value}, {"X-Codeium-Csrf-Token", "x", Value}, {"X-Amz-Security-Token", "x", Value},
		{"Authorization", "", ""}, {"Content-Type", "text/plain; charset=utf-8", "text/plain; charset=utf-8"},
		{"Location", "https://x.example/cb?code=x&a=1", "https://x.example/cb?code=REDACTED&a=1"}, {"Sec-Websocket-Key", "x", "x"},
		{"WWW-Authenticate", `Bearer realm="x"`, `Bearer realm="x"`}, {"X-Other", "Bearer abcdef-123456", "Bearer REDACTED"},
	} {
		if got := Header(c[0], c[1]); got != c[2] {
			t.Errorf("%s: %s becomes %s, want %s", c[0], c[1], got, c[2])
		}
	}
	for text, want := range map[string]string{
		"https://x.example/v1/models?key=x&alt=sse":                      "https://x.example/v1/models?key=REDACTED&alt=sse",
		"https://x.example/?access_token=x;b=%20+":                       "https://x.example/?access_token=REDACTED;b=%20+",
		"https://x.example/?access%5Ftoken=x":                            "https://x.example/?access%5Ftoken=REDACTED",
		"https://ada:x@y.example/a%2Fb?":                                 "https://ada:REDACTED@y.example/a%2Fb?",
		"https://x.example/?u=https%3A%2F%2Fy.example%2F%3Fkey%3Dx":      "https://x.example/?u=https%3A%2F%2Fy.example%2F%3Fkey%3DREDACTED",
		"https://x.example/?b&c=&key=&d=%7B%7D":                          "https://x.example/?b&c=&key=&d=%7B%7D",
		"https://x.example/cb#access_token=x&a=1":                        "https://x.example/cb#access_token=REDACTED&a=1",
		"https://x.example/v1:generate?q=%7B%22password%22%3A%22x%22%7D": "https://x.example/v1:generate?q=%7B%22password%22%3A%22REDACTED%22%7D",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := URL(u); got != want {
			t.Errorf("%s becomes\n%s, want\n%s", text, got, want)
		}
	}
}

// A string of JSON may end with the name of a secret and its separator: the quotation mark after it
// begins no value.
func TestContentKeepsTheEndOfAString(t *testing.T) {
	for _, text := range []string{
		`{"pattern":"api_key=","path":"src"}`, `{"a":"https://x.example/?alt=sse&key="}`, `["password: ",null]`, `[["token="],{"b":"c"}]`,
		"{\n  \"a\": \"https://x.example/?alt=sse\\u0026key=\"\n}\n", `{"a":"{\"pattern\":\"api_key=\",\n \"b\":1}"}`, `{'pattern': 'api_key=', 'n': True}`,
		`"password="`, `{"piece":"{\"password\":","next":"a","b":"c"}`,
	} {
		if got := Content([]byte(text)); string(got) != text {
			t.Errorf("%s becomes\n%s", text, got)
		}
	}
	for text, want := range map[string]string{
		`<a password="x" b="c">`: `<a password="REDACTED" b="c">`, `password=",hunter2"`: `password="REDACTED"`, `password="}hunter2"`: `password="REDACTED"`,
		`{"a":"token='","access_token":"x'y","b":1}`: `{"a":"token='","access_token":"REDACTED","b":1}`, `token='a"b'`: `token='REDACTED'`,
		`{"piece":"password\":\"x y\"}","b":"c"}`:  `{"piece":"password\":\"REDACTED\"}","b":"c"}`,
		`{"a":"set password=\"x y\" and","b":"c"}`: `{"a":"set password=\"REDACTED\" and","b":"c"}`,
	} {
		if got := Content([]byte(text)); string(got) != want {
			t.Errorf("%s becomes\n%s, want\n%s", text, got, want)
		}
	}
}

// FuzzContent puts a secret into JSON that has anything beside it. It may be cut off anywhere.
func FuzzContent(f *testing.F) {
	f.Add("a", `b"\`, "c'", 30)
	f.Add(`"`, `\u0022`, "[{:=", 90)
	f.Fuzz(func(t *testing.T, key, before, after string, cut int) {
		const canary = "hunter2-c4nary"
		if strings.ContainsAny(key+before+after, "4") {
			return // of the canary
		}
		inner, err := json.Marshal([]any{map[string]string{key: before}, map[string]any{"access_token": before + canary, "z": after}})
		if err != nil {
			t.Fatal(err)
		}
		outer, err := json.Marshal(map[string]any{"a": before, "b": string(inner), "c": json.RawMessage(inner), "d": after})
		if err != nil {
			t.Fatal(err)
		}
		got := Content(outer)
		if bytes.Contains(got, []byte("c4nary")) || !json.Valid(got) {
			t.Fatalf("%s\nbecomes\n%s", outer, got)
		}
		if cut >= 0 && cut < len(outer) {
			if got := Content(outer[:cut]); bytes.Contains(got, []byte("c4nary")) {
				t.Fatalf("%s\nbecomes\n%s", outer[:cut], got)
			}
		}
		Binary([]byte(key + before + after))
	})
}

func BenchmarkContent(b *testing.B) {
	for name, piece := range map[string]string{
		"json": `{"role":"user","parts":[{"text":"some words of a prompt: with = and : in them"}],"access_token":"x"},`, "escapes": `\"key\":\"`,
		"quotes": `"key":'`, "words": "name=value&", "tags": "<a>", "backslashes": `\\\\\\\\`, "colons": ":",
	} {
		text := bytes.Repeat([]byte(piece), 1<<20/len(piece))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Content(text)
			}
		})
	}
}
