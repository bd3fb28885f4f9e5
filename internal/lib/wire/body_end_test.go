package wire

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// A provider that wants to send us elsewhere is not followed, and the body that was opened for the
// way there is closed all the same: else Wait would wait for ever.
func TestWaitEndsAfterARedirect(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		synctest.Test(t, func(t *testing.T) {
			client := NewClient(roundTrip(func(req *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, req.Body)
				_ = req.Body.Close()
				return &http.Response{StatusCode: status, Header: http.Header{"Location": {"/elsewhere"}}, Body: http.NoBody, Request: req}, nil
			}))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			body := NewBody([]byte("a question"))
			body.Attach(req)
			resp, err := client.Do(req)
			if err != nil || resp.StatusCode != status {
				t.Fatalf("got %v, %v; want %d", resp, err, status)
			}
			body.Wait() // or a deadlock, which the bubble reports
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// HTTP/2 closes the body of a call that ends early from one goroutine while another reads it. The
// memory is in use by another call by then.
func TestNothingIsReadOfAClosedBody(t *testing.T) {
	body := NewBody([]byte("a question"))
	r := body.reader()
	_ = r.Close()
	await.Return(t, body.Wait, "the end of the body")
	if n, err := r.Read(make([]byte, 64)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("Read gave %d bytes and %v after Close", n, err)
	}
	if n, err := r.(io.WriterTo).WriteTo(io.Discard); n != 0 || err == nil {
		t.Errorf("WriteTo gave %d bytes and %v after Close", n, err)
	}
}

// Providers may answer before they have read the whole request. Its bytes are kept until the
// transport has let go of them.
func TestReleasedBodyIsKeptWhileItIsRead(t *testing.T) {
	freed := 0
	req := perigee.NewRequest(perigee.Origin{Free: func() { freed++ }}, "m", true, nil)
	refused := NewBody([]byte("a question"))
	refused.ReleaseWith(req, func() { t.Error("freed by a body that was sent in vain before") })
	await.Return(t, refused.Wait, "the end of the body that was refused")
	body := NewBody([]byte("a question"))
	body.ReleaseWith(req, func() { freed++ })
	r := body.reader()
	req.Release()
	read := make([]byte, len("a question")-1)
	if _, err := io.ReadFull(r, read); freed != 0 || err != nil || string(read) != "a questio" {
		t.Errorf("read %q (%v), freed %d times", read, err, freed)
	}
	_ = r.Close()
	await.Return(t, body.Wait, "the end of the body")
	if freed != 2 {
		t.Errorf("freed %d times after the transport was done", freed)
	}
}

// HTTP/2 reads a body to its end and closes it with the stream, which may be open for minutes.
func TestBodyIsFreedBehindItsLastByte(t *testing.T) {
	freed := 0
	req := perigee.NewRequest(perigee.Origin{}, "m", true, nil)
	body := NewBody([]byte("a "), []byte("question"))
	body.ReleaseWith(req, func() { freed++ })
	r := body.reader()
	req.Release()
	if read, err := io.ReadAll(r); freed != 1 || err != nil || string(read) != "a question" {
		t.Errorf("read %q (%v), freed %d times", read, err, freed)
	}
	await.Return(t, body.Wait, "the end of the body")
	if _ = r.Close(); freed != 1 {
		t.Errorf("freed %d times after it was closed", freed)
	}
}
