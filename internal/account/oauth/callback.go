package oauth

import (
	"html"
	"io"
	"net/http"

	"perigee"
)

const callbackPath = "/oauth-callback"

// serve is the callback. Any local program can call it, so a request without the state changes
// nothing.
func (l *Login) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != callbackPath {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "the browser comes here with GET", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	if !l.isOurs(query.Get("state")) {
		writePage(w, http.StatusBadRequest, page{"Not this sign-in", "This page belongs to another sign-in. Open the link that perigee shows, and try again."})
		return
	}
	a := attempt{pasted: fromQuery(query)}
	if a.denied == "" && a.code.IsZero() {
		writePage(w, http.StatusBadRequest, page{"Not signed in", "There is no code in this address. Open the link that perigee shows, and try again."})
		return
	}
	if err := l.try(r.Context(), a); err != nil {
		writePage(w, http.StatusBadGateway, page{"Not signed in", perigee.AsError(err).Error()})
		return
	}
	writePage(w, http.StatusOK, page{"Signed in", "perigee has what it needs. You can close this page."})
}

// A page is all that the browser gets to see.
type page struct{ Title, Text string }

// html writes the page. Errors have texts of the provider and of the address, so they are escaped.
func (p page) html() string {
	title := html.EscapeString(p.Title)
	return `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>perigee: ` + title + `</title>
<style>body { font: 1.1em/1.5 system-ui, sans-serif; max-width: 32em; margin: 20vh auto; padding: 0 1em; color-scheme: light dark }</style>
<h1>` + title + `</h1>
<p>` + html.EscapeString(p.Text) + `</p>
</html>
`
}

func writePage(w http.ResponseWriter, status int, p page) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer") // the address has the code in it
	w.WriteHeader(status)
	_, _ = io.WriteString(w, p.html()) // the browser may have gone
}
