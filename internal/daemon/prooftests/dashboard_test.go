package prooftests

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/observe/dashboard"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// A browser that has opened the link of the owner has the daemon shrink a call that failed.
func TestTheDashboardShrinksACall(t *testing.T) {
	t.Parallel()
	g := daemontest.Start(t, "", nil)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: daemontest.Client.Transport, Timeout: await.Limit}
	send := func(method, address, contentType, body string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	get := func(address string) string {
		_, text := send(http.MethodGet, address, "", "")
		return text
	}
	resp, _ := send(http.MethodPost, g.URL()+"/v1/chat/completions", "application/json",
		`{"model":"gemini-3-flash","messages":[{"role":"user","content":"hello"},{"role":"user","content":[{"type":"input_image","x":1}]}]}`)
	if resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("the call is answered with %s", resp.Status)
	}
	var ticket dashboard.Ticket
	_, answer, err := daemontest.AdminOf(t, g).Do(t.Context(), http.MethodPost, dashboard.TicketPath, "")
	if err != nil || json.Unmarshal([]byte(answer), &ticket) != nil {
		t.Fatalf("no ticket: %s, %v", answer, err)
	}
	get(ticket.URL)

	page := g.URL() + "/dashboard/calls/" + resp.Header.Get("X-Perigee-Call")
	var form []string
	await.Until(t, "the trace of the call", func() bool {
		form = regexp.MustCompile(`/shrink"[^>]*><input type="hidden" name="token" value="([^"]*)"`).FindStringSubmatch(get(page))
		return form != nil
	})
	found, _ := send(http.MethodPost, page+"/shrink", "application/x-www-form-urlencoded", url.Values{"token": {form[1]}}.Encode())
	if found.Request.URL.String() != page+"/shrink" {
		t.Errorf("the form leads to %s", found.Request.URL)
	}
	await.Until(t, "the smallest request", func() bool {
		return strings.Contains(get(page+"/shrink"), "{&#34;model&#34;:&#34;gemini-3-flash&#34;,&#34;messages&#34;:[{&#34;role&#34;:&#34;user&#34;,&#34;content&#34;:[{&#34;type&#34;:&#34;input_image&#34;}]}]}")
	})
	calls, err := g.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	trials := 0
	for _, c := range calls {
		if c.ReplayOf != "" && c.Class == perigee.ClassInvalid {
			trials++
		}
	}
	if trials == 0 {
		t.Error("no trial was recorded")
	}
}
