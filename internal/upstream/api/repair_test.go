package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
)

// asked sends a body to a provider that refuses as it is told, and returns what was sent and how it
// ended. Requests of other dialects are written anew, those of this one go as they are.
func asked(t *testing.T, translated bool, body string, refuse func(n int, body string) string) (sent []string, notes string, err error) {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		raw, _ := io.ReadAll(r.Body)
		sent = append(sent, string(raw))
		w.Header().Set("Content-Type", "application/json")
		if text := refuse(len(sent), string(raw)); text != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":%q}}`, text)
			return
		}
		fmt.Fprint(w, finished)
	}))
	defer server.Close()
	u := New(Gemini, Options{Name: "s", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("k")}})
	defer u.Close()
	req, err := dialect.DecodeRequest(perigee.Origin{Body: []byte(body), Log: &perigee.CallLog{}}, "gemini-3-flash-preview", false)
	if err != nil {
		t.Fatal(err)
	}
	if translated {
		req.Dialect = perigee.DialectOpenAIChat
	}
	for _, failed := range u.Stream(t.Context(), req) {
		if failed != nil {
			err = failed
		}
	}
	for _, note := range req.Log.Notes() {
		notes += note.String() + "; "
	}
	return sent, notes, err
}

const (
	question = `{"role":"user","parts":[{"text":"go on"}]}`
	called   = `{"role":"model","parts":[{"functionCall":{"id":"c1","name":"read","args":{"p":"a"}}%s}]},`
	answered = `{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"read","response":{"result":"text"}}}%s]}`
	done     = `,{"role":"model","parts":[{"text":"done"}]},`
)

// A provider that wants every first call of the model's signed, whichever turn it is in: the second
// attempt has nothing that it could want a signature for, and no attempt is sent twice.
func TestSignaturesWhereverTheTurnBegins(t *testing.T) {
	const seal = "c2VhbC1vZi1zb21lYm9keS1lbHNl"
	for name, contents := range map[string]string{
		"an earlier turn":                question + "," + fmt.Sprintf(called, "") + fmt.Sprintf(answered, "") + done + question,
		"an earlier turn that is signed": question + "," + fmt.Sprintf(called, `,"thoughtSignature":"`+seal+`"`) + fmt.Sprintf(answered, "") + done + question,
		"a picture beside the result":    question + "," + fmt.Sprintf(called, "") + fmt.Sprintf(answered, `,{"inlineData":{"mimeType":"image/png","data":"aGk="}}`),
		"a text beside the result":       question + "," + fmt.Sprintf(called, "") + fmt.Sprintf(answered, `,{"text":"and?"}`),
		"no calls at all":                question,
	} {
		for _, translated := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, translated: %v", name, translated), func(t *testing.T) {
				sent, notes, err := asked(t, translated, `{"contents":[`+contents+`]}`, func(n int, body string) string {
					if n == 1 || strings.Contains(body, seal) || strings.Contains(body, `"args":{"p":"a"}}}`) {
						return "Function call is missing a thought_signature in functionCall parts."
					}
					return ""
				})
				if len(sent) > 2 || len(sent) == 2 && sent[0] == sent[1] {
					t.Errorf("sent\n%s", strings.Join(sent, "\n"))
				}
				if changeable := contents != question; changeable != (err == nil) || changeable != strings.Contains(notes, "repaired thought signatures that the provider refused") {
					t.Errorf("%v, notes %q, sent\n%s", err, notes, strings.Join(sent, "\n"))
				}
			})
		}
	}
}

// A request in the provider's own dialect whose results do not fit its calls is the client's own,
// unless results are copies.
func TestResultsThatCameTwice(t *testing.T) {
	const refusal = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
	result := fmt.Sprintf(answered, "")
	for name, c := range map[string]struct {
		results string
		again   bool
	}{
		"copies":              {result + "," + result, true},
		"results that differ": {result + "," + strings.Replace(result, `"text"`, `"other"`, 1), false},
		"none":                {question, false},
	} {
		t.Run(name, func(t *testing.T) {
			sent, notes, err := asked(t, false, `{"contents":[`+question+`,`+fmt.Sprintf(called, `,"thoughtSignature":"skip_thought_signature_validator"`)+c.results+`]}`, func(n int, body string) string {
				if n == 1 || strings.Count(body, "functionResponse") != 1 {
					return refusal
				}
				return ""
			})
			if again := len(sent) == 2; again != c.again || again != (err == nil) || again != strings.Contains(notes, "repaired result of tool read that came twice") {
				t.Errorf("%v, notes %q, sent\n%s", err, notes, strings.Join(sent, "\n"))
			}
		})
	}
}

// A refusal in the middle of an answer is passed on: what the client has of the answer cannot be
// taken back. One that comes before is repaired, and each request is a try on record.
func TestNothingIsRepairedBehindContent(t *testing.T) {
	const refusal = `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Corrupted thought signature."}}`
	half := `{"candidates":[{"content":{"parts":[{"text":"half"}]}}]}`
	for name, c := range map[string]struct {
		chunks []string
		want   string
		tries  int
	}{
		"behind content": {[]string{half, refusal}, "start text half, invalid", 0},
		"at first":       {[]string{refusal}, "start text ok finish, ", 2},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			transport := roundTripper(func(req *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, req.Body)
				_ = req.Body.Close()
				chunks := c.chunks
				if calls++; calls > 1 {
					chunks = []string{finished}
				}
				body := "data: " + strings.Join(chunks, "\r\n\r\ndata: ") + "\r\n\r\n"
				return &http.Response{StatusCode: http.StatusOK, Request: req, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
			})
			u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Keys: []perigee.Secret{perigee.NewSecret("k")}, Transport: transport})
			defer u.Close()
			contents := question + "," + fmt.Sprintf(called, `,"thoughtSignature":"c2VhbA=="`) + fmt.Sprintf(answered, "")
			req, err := dialect.DecodeRequest(perigee.Origin{Body: []byte(`{"contents":[` + contents + `]}`), Log: &perigee.CallLog{}},
				"gemini-3-flash-preview", true)
			if err != nil {
				t.Fatal(err)
			}
			req.Dialect = perigee.DialectOpenAIChat
			var got []string
			var class perigee.Class
			for ev, err := range u.Stream(t.Context(), req) {
				switch {
				case err != nil:
					class = perigee.AsError(err).Class
				case ev.Kind == perigee.EventStart:
					got = append(got, "start")
				case ev.Kind == perigee.EventText:
					got = append(got, "text "+ev.Text)
				case ev.Kind == perigee.EventFinish:
					got = append(got, "finish")
				}
			}
			if text := strings.Join(got, " ") + ", " + string(class); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			if tries := req.Log.Attempts(); len(tries) != c.tries || c.tries > 0 && (tries[0].Class != perigee.ClassInvalid || tries[1].Class != "") {
				t.Errorf("tries %+v", tries)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
