package api

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// errNoMethod is the cause of the error of a server that does not have an API method at its path.
var errNoMethod = errors.New("the server does not have this API method")

// maxWords is how many bytes of a server's message about a path an error repeats.
const maxWords = 100

// lacksMethod reports whether an answer to a request for a path means that the server does not have
// the API method there, mostly because url of the upstream is wrong. An error with status 404 may
// also be about something that the request names, such as its model: then its message is more than
// the meaning of the status, and does not repeat the path. Where the path has the model, that need
// not be so in an error of the API, and an odd name makes a path that the API does not have. A
// status of 0 is an error inside an answer with status 200, as some servers send for every path. A file
// server answers a POST with status 501 and a page. Pages with other statuses, such as 403 and 502,
// come from proxies in front of providers.
func lacksMethod(status int, path, message string, body []byte) bool {
	message = strings.ToLower(strings.TrimRight(message, ". "))
	repeats := strings.Contains(message, strings.ToLower(path))
	_, model, inPath := strings.Cut(path, "/models/")
	odd := strings.Count(model, ":") > 1 || strings.ContainsAny(model, "/% ")
	switch {
	case status == http.StatusMethodNotAllowed || status == 0 && repeats || status == http.StatusNotImplemented && isPage(body):
		return true
	case status != http.StatusNotFound || odd:
		return false
	}
	if repeats || rawjson.Check(body) != nil || strings.HasSuffix(message, "did not explain it") {
		return true
	}
	_, _, named := rawjson.Find(body, "error")
	return (!inPath || !named) && slices.Contains(bareNotFound, message)
}

// bareNotFound are messages of servers and frameworks about a path that they do not have.
var bareNotFound = []string{"not found", "404 not found", "404 page not found", "page not found", "file not found", "resource not found",
	"no route matched with those values"}

// isPage reports whether the beginning of an answer is the one of a page. No API answers with markup.
func isPage(head []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n\ufeff"), []byte("<"))
}

// withoutMethod returns the error of a server that does not have the API method of a request, from its
// answer with this error and body. A page is not repeated.
func (u *Upstream) withoutMethod(target *url.URL, answer *http.Response, said *perigee.Error, body []byte) *perigee.Error {
	e := *said
	e.Class, e.Cause, e.Hint = perigee.ClassUnavailable, errNoMethod, u.checkURL()
	if e.Status == http.StatusMethodNotAllowed {
		e.Status = 0 // the client's own method was allowed
	}
	if isPage(body) {
		e.Message = fmt.Sprintf("upstream %s: the server answered %s with status %d and a page (%s)", u.opts.Name, u.method(target),
			answer.StatusCode, mediaType(answer.Header))
		return &e
	}
	e.Message = fmt.Sprintf("upstream %s: the server does not have %s: %s", u.opts.Name, u.method(target), perigee.Clip(u.keys.cleanText(said.Message), maxWords))
	return &e
}

// pageInstead returns the error of a server that answers with a page, as the sign-in of a proxy and
// the website of a provider do, and status 200. The page is not repeated.
func (u *Upstream) pageInstead(target *url.URL, h http.Header) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassUnavailable, Hint: u.checkURL(),
		Message: fmt.Sprintf("upstream %s: the server answered %s with a page (%s)", u.opts.Name, u.method(target), mediaType(h))}
}

// mediaType returns the type of an answer for an error message, without its parameters.
func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "without a type"
	}
	return perigee.Clip(kind, maxWords)
}

// method returns the part of a URL after the one of the configuration.
func (u *Upstream) method(target *url.URL) string {
	return strings.TrimPrefix(target.Scheme+"://"+target.Host+target.EscapedPath(), u.opts.URL)
}

// checkURL returns the hint for an upstream with a url that is probably wrong.
func (u *Upstream) checkURL() string {
	if base, err := url.Parse(u.opts.URL); err == nil && u.pathInURL && base.Path == "" {
		return fmt.Sprintf("add /v1 to url of upstream %s in the configuration, which has no path; perigee doctor tests the upstream", u.opts.Name)
	}
	return fmt.Sprintf("check url of upstream %s in the configuration; perigee doctor tests the upstream", u.opts.Name)
}
