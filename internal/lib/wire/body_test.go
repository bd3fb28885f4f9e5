package wire

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A body in pieces arrives whole, over a bare connection, where nothing is copied, and over TLS.
func TestBodyInPieces(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	pieces := [][]byte{[]byte("<"), large, nil, []byte("|"), large[:5000], []byte(">")}
	want := bytes.Join(pieces, nil)
	for name, start := range map[string]func(http.Handler) *httptest.Server{"bare": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			got := make(chan []byte, 2)
			server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if err != nil || r.ContentLength != int64(len(want)) {
					t.Errorf("length %d, want %d; %v", r.ContentLength, len(want), err)
				}
				got <- b
			}))
			defer server.Close()
			transport := NewTransport()
			if server.TLS != nil {
				trust(transport, server)
			}
			client := NewClient(transport)
			defer client.CloseIdleConnections()
			body := NewBody(pieces...)
			for range 2 { // the second time on the connection of the first
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				body.Attach(req)
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if b := await.Receive(t, got, "the body"); !bytes.Equal(b, want) {
					t.Errorf("%d bytes arrived, not the same as the %d that were sent", len(b), len(want))
				}
			}
			await.Return(t, body.Wait, "the end of the body")
		})
	}
}

// Many short pieces are few writes, except to a TCP connection, which takes all pieces at once.
func TestShortPiecesAreWrittenTogether(t *testing.T) {
	pieces := make([][]byte, 1000)
	for i := range pieces {
		pieces[i] = bytes.Repeat([]byte{byte(i)}, 100)
	}
	body := NewBody(pieces...)
	var w countingWriter
	n, err := body.reader().(io.WriterTo).WriteTo(&w)
	if want := bytes.Join(pieces, nil); err != nil || n != int64(len(want)) || !bytes.Equal(w.Bytes(), want) || w.writes > 2 {
		t.Errorf("%d of %d bytes in %d writes, %v", n, len(want), w.writes, err)
	}
	await.Return(t, body.Wait, "the end of the body")
}

type countingWriter struct {
	bytes.Buffer
	writes int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.writes++
	return w.Buffer.Write(p)
}

// net/http may open a body and never close it. The call ends all the same.
func TestWaitEndsWithAReaderThatIsNeverClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBody([]byte("question"))
		forgotten := b.reader()
		start := time.Now()
		b.Wait()
		if took := time.Since(start); took != waitTime {
			t.Errorf("waited %v", took)
		}
		if _, err := forgotten.Read(make([]byte, 8)); err == nil {
			t.Error("the bytes can be read although they may be used again")
		}
	})
}
