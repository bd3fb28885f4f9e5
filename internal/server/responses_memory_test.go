package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/membudget"
)

// A budgetStoreRig notes how much of a budget is used whenever a response is read.
type budgetStoreRig struct {
	*storeRig
	budget *membudget.Budget
	reads  []int64
}

func (s *budgetStoreRig) Response(ctx context.Context, key, id string) (*perigee.StoredResponse, error) {
	s.reads = append(s.reads, s.budget.Used())
	return s.storeRig.Response(ctx, key, id)
}

// openStored is a memoryRig whose store has a response with so many bytes of input.
func openStored(t *testing.T, memory int64, size int) (*memoryRig, *budgetStoreRig) {
	t.Helper()
	store := &budgetStoreRig{storeRig: &storeRig{}}
	r := openMemory(t, memory, server.Settings{}, func(o *server.Options) {
		store.budget = o.Memory
		o.Responses = store
	})
	item := `[{"id":"msg_1_0","type":"message","role":"user","content":[{"type":"input_text","text":"%s"}]}]`
	if err := store.SaveResponse(t.Context(), &perigee.StoredResponse{ID: "resp_1",
		Input:  fmt.Appendf(nil, item, strings.Repeat("x", size)),
		Output: []byte(`[]`), Response: []byte(`{"id":"resp_1","object":"response","status":"completed","output":[]}`)}); err != nil {
		t.Fatal(err)
	}
	return r, store
}

// readers are the requests that read a stored response.
func readers() map[string]string {
	const body = `{"model":"m","input":"and?","previous_response_id":"resp_1"}`
	const recall = `{"model":"m","input":[{"type":"item_reference","id":"msg_1_0"}]}`
	return map[string]string{
		"continue": fmt.Sprintf("POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"recall": fmt.Sprintf("POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(recall),
			recall),
		"read":        "GET /v1/responses/resp_1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"input items": "GET /v1/responses/resp_1/input_items HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"replay":      "GET /v1/responses/resp_1?stream=true HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
	}
}

func TestStoredResponsesAreReadAfterTheirMemoryIsReserved(t *testing.T) {
	for name, request := range readers() {
		bubble(name, t, func(t *testing.T) {
			const size = 8 * mb
			r, store := openStored(t, 128*mb, size)
			close(r.goOn)
			_, reader := r.send(t, "%s", request)
			if resp, body := answerOn(t, reader); resp.StatusCode != http.StatusOK {
				t.Errorf("%d %.300s", resp.StatusCode, body)
			}
			if len(store.reads) == 0 {
				t.Fatal("nothing was read")
			}
			for _, used := range store.reads {
				if used < 4*size {
					t.Errorf("%d bytes were reserved when a response of %d was read", used, size)
				}
			}
			synctest.Wait()
			if used := r.budget.Used(); used != 0 {
				t.Errorf("%d bytes are used after the call", used)
			}
		})
	}
}

func TestStoredResponsesThatDoNotFitAreNotRead(t *testing.T) {
	for name, request := range readers() {
		bubble(name, t, func(t *testing.T) {
			r, store := openStored(t, 128*mb, 12*mb)
			r.fill(t)
			_, reader := r.send(t, "%s", request)
			resp, body := answerOn(t, reader)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%d %.300s", resp.StatusCode, body)
			}
			if len(store.reads) != 0 {
				t.Errorf("it was read %d times", len(store.reads))
			}
		})
	}
}

// What was accepted as a body can be continued, as long as the conversation as a whole could be a
// body.
func TestLargeStoredResponsesCanBeContinued(t *testing.T) {
	for _, test := range []struct{ size, status int }{{15 * mb, http.StatusOK}, {17 * mb, http.StatusRequestEntityTooLarge}} {
		bubble(fmt.Sprint(test.size), t, func(t *testing.T) {
			r, store := openStored(t, 64*mb, test.size)
			close(r.goOn)
			_, reader := r.send(t, "%s", readers()["continue"])
			resp, body := answerOn(t, reader)
			if resp.StatusCode != test.status || (len(store.reads) > 0) != (test.status == http.StatusOK) {
				t.Errorf("%d after %d reads: %.300s", resp.StatusCode, len(store.reads), body)
			}
		})
	}
}
