package flows

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
)

// The objects of HAR 1.2 (http://www.softwareishard.com/blog/har-12-spec). Names that start with _
// are extensions of perigee.
type (
	harCreator struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	harEntry struct {
		Started    string      `json:"startedDateTime"`
		Time       float64     `json:"time"`
		Request    harRequest  `json:"request"`
		Response   harResponse `json:"response"`
		Cache      struct{}    `json:"cache"`
		Timings    harTimings  `json:"timings"`
		Server     string      `json:"serverIPAddress,omitempty"`
		Connection string      `json:"connection,omitempty"`
		Comment    string      `json:"comment,omitempty"`
	}
	harRequest struct {
		Method      string      `json:"method"`
		URL         string      `json:"url"`
		Version     string      `json:"httpVersion"`
		Cookies     []harCookie `json:"cookies"`
		Headers     []harPair   `json:"headers"`
		Query       []harPair   `json:"queryString"`
		Post        *harPost    `json:"postData,omitempty"`
		HeadersSize int         `json:"headersSize"`
		BodySize    int64       `json:"bodySize"`
	}
	harResponse struct {
		Status      int         `json:"status"`
		StatusText  string      `json:"statusText"`
		Version     string      `json:"httpVersion"`
		Cookies     []harCookie `json:"cookies"`
		Headers     []harPair   `json:"headers"`
		Content     harContent  `json:"content"`
		RedirectURL string      `json:"redirectURL"`
		HeadersSize int         `json:"headersSize"`
		BodySize    int64       `json:"bodySize"`
		Trailers    []harPair   `json:"_trailers,omitempty"`
		Error       string      `json:"_error,omitempty"`
	}
	harPair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	harCookie struct {
		Name     string `json:"name"`
		Value    string `json:"value"`
		Path     string `json:"path,omitempty"`
		Domain   string `json:"domain,omitempty"`
		Expires  string `json:"expires,omitempty"`
		HTTPOnly bool   `json:"httpOnly,omitempty"`
		Secure   bool   `json:"secure,omitempty"`
	}
	harPost struct {
		MimeType string    `json:"mimeType"`
		Params   []harPair `json:"params,omitempty"`
		Text     string    `json:"text"`
		Encoding string    `json:"_encoding,omitempty"` // HAR 1.2 has one for answers only
		Comment  string    `json:"comment,omitempty"`
	}
	harContent struct {
		Size        int64  `json:"size"`
		Compression int64  `json:"compression,omitempty"`
		MimeType    string `json:"mimeType"`
		Text        string `json:"text,omitempty"`
		Encoding    string `json:"encoding,omitempty"`
		Comment     string `json:"comment,omitempty"`
	}
	harTimings struct {
		Blocked float64 `json:"blocked"`
		DNS     float64 `json:"dns"`
		Connect float64 `json:"connect"`
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
		SSL     float64 `json:"ssl"`
	}
)

// release returns the memory of the bodies.
func (x *exchange) release() {
	x.memory.used.Add(-int64(len(x.request.data) + len(x.response.data)))
	x.request.data, x.response.data = nil, nil
}

// shortest is the minimum length of a credential that is replaced in all places. A shorter one may
// be a part of any text.
const shortest = 8

// known returns a redactor of the request's credentials, which an answer may repeat under any
// name.
func (x *exchange) known() *redact.Redactor {
	var secrets []perigee.Secret
	add := func(value string) {
		if len(value) >= shortest {
			secrets = append(secrets, perigee.NewSecret(value))
		}
	}
	for name, values := range x.requestHeader {
		if !redact.IsHeader(name) || name == "Cookie" {
			continue
		}
		for _, value := range values {
			add(value)
			_, token, _ := strings.Cut(value, " ") // after Bearer
			add(token)
		}
	}
	for _, c := range (&http.Request{Header: x.requestHeader}).Cookies() {
		add(c.Value)
	}
	for pair := range strings.FieldsFuncSeq(x.rawQuery, isDelimiter) {
		if name, value, _ := strings.Cut(pair, "="); redact.IsParameter(name) {
			add(unescape(value))
		}
	}
	return redact.New(secrets...).WithMark(redact.Value)
}

// notRecorded is the comment about bytes after an upgrade.
const notRecorded = "not recorded: the connection was upgraded"

// entry returns the exchange without secrets.
func (x *exchange) entry() harEntry {
	known := x.known()
	timings, total := x.timings()
	e := harEntry{Started: x.began.UTC().Format("2006-01-02T15:04:05.000Z07:00"), Time: total, Timings: timings, Server: x.steps.address, Connection: x.fromPort}
	e.Request = harRequest{
		Method: x.flow.Method, URL: known.Text(x.flow.URL), Version: x.flow.HTTP, Cookies: requestCookies(x.requestHeader),
		Headers: append([]harPair{{"Host", x.host}}, pairs(x.requestHeader, known)...), Query: query(known.Text(x.rawQuery)), HeadersSize: -1, BodySize: x.request.size,
	}
	if x.request.size > 0 {
		b := decode(&x.request, x.requestHeader, known)
		e.Request.Post = &harPost{MimeType: mimeType(x.requestHeader), Text: b.text, Encoding: b.encoding, Comment: b.comment}
		if b.form {
			e.Request.Post.Params = query(b.text)
		}
	}
	b := decode(&x.response, x.responseHeader, known)
	e.Response = harResponse{
		Status: x.status, StatusText: http.StatusText(x.status), Version: x.flow.HTTP, Cookies: responseCookies(x.responseHeader),
		Headers: pairs(x.responseHeader, known), RedirectURL: known.Text(redact.Header("Location", x.responseHeader.Get("Location"))), HeadersSize: -1,
		BodySize: x.response.size, Trailers: pairs(x.trailer, known), Error: known.Text(x.flow.Error),
		Content: harContent{Size: b.size, MimeType: mimeType(x.responseHeader), Text: b.text, Encoding: b.encoding, Comment: b.comment},
	}
	if x.status == http.StatusSwitchingProtocols {
		e.Response.Content.Comment = notRecorded
		if e.Request.Post != nil {
			e.Request.Post.Comment = notRecorded
		}
	}
	if b.whole && b.size != x.response.size {
		e.Response.Content.Compression = b.size - x.response.size
	}
	return e
}

// timings returns the times of the steps, and their sum. A step that did not happen is -1 and does
// not count.
func (x *exchange) timings() (t harTimings, total float64) {
	s := &x.steps
	t = harTimings{Blocked: -1, DNS: -1, Connect: -1, SSL: -1}
	between := func(from, to time.Time) float64 {
		if from.IsZero() || to.IsZero() || to.Before(from) {
			return -1
		}
		return milliseconds(to.Sub(from))
	}
	begin := x.began
	if !s.gotConn.IsZero() && !s.gotConn.After(x.ended) {
		t.DNS = between(s.dnsStart, s.dnsDone)
		t.SSL = between(s.connectDone, s.tlsDone)
		t.Connect = between(s.connectStart, s.connectDone)
		if t.Connect >= 0 && t.SSL >= 0 {
			t.Connect = rounded(t.Connect + t.SSL)
		}
		t.Blocked = rounded(max(0, milliseconds(s.gotConn.Sub(begin))-max(t.DNS, 0)-max(t.Connect, 0)))
		begin = s.gotConn
	}
	head := x.head
	if head.IsZero() {
		head = x.ended
	}
	sent := s.wroteRequest
	if sent.IsZero() {
		sent = x.bodyRead
	}
	if sent.Before(begin) || sent.After(head) { // the answer came before the end of the request
		sent = begin
	}
	t.Send, t.Wait, t.Receive = milliseconds(sent.Sub(begin)), max(0, milliseconds(head.Sub(sent))), max(0, milliseconds(x.ended.Sub(head)))
	// SSL is a part of Connect.
	for _, step := range []float64{t.Blocked, t.DNS, t.Connect, t.Send, t.Wait, t.Receive} {
		total += max(step, 0)
	}
	return t, rounded(total)
}

// rounded returns milliseconds rounded to whole microseconds.
func rounded(ms float64) float64 { return math.Round(ms*1000) / 1000 }

func mimeType(h http.Header) string { return cmp.Or(h.Get("Content-Type"), "x-unknown") }

// pairs returns headers in the order of their names.
func pairs(h http.Header, known *redact.Redactor) []harPair {
	list := []harPair{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			list = append(list, harPair{name, known.Text(redact.Header(name, value))})
		}
	}
	return list
}

// query returns the parameters of a URL or a form, in their order.
func query(raw string) []harPair {
	list := []harPair{}
	for pair := range strings.FieldsFuncSeq(raw, isDelimiter) {
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(name), unescape(value)
		if value != "" && redact.IsParameter(name) {
			value = redact.Value
		}
		list = append(list, harPair{name, string(redact.Content([]byte(value)))})
	}
	return list
}

func isDelimiter(r rune) bool { return r == '&' || r == ';' }

func unescape(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return strings.ToValidUTF8(plain, "\uFFFD")
	}
	return s
}

func requestCookies(h http.Header) []harCookie {
	list := []harCookie{}
	for _, c := range (&http.Request{Header: h}).Cookies() {
		list = append(list, harCookie{Name: c.Name, Value: redact.Value})
	}
	return list
}

func responseCookies(h http.Header) []harCookie {
	list := []harCookie{}
	for _, c := range (&http.Response{Header: h}).Cookies() {
		cookie := harCookie{Name: c.Name, Value: redact.Value, Path: c.Path, Domain: c.Domain, HTTPOnly: c.HttpOnly, Secure: c.Secure}
		if !c.Expires.IsZero() {
			cookie.Expires = c.Expires.UTC().Format(time.RFC3339)
		}
		list = append(list, cookie)
	}
	return list
}
