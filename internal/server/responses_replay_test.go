package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// read gets a stored response as a stream.
func (d *responsesRig) read(t *testing.T, query string) (*http.Response, string) {
	t.Helper()
	resp, err := d.client.Get("http://localhost/v1/responses/" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

func TestResponseInTheMakingIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		_, queued := d.do(t, http.MethodPost, "", behind)
		began := time.Now()
		resp, body := d.read(t, queued["id"].(string)+"?stream=true")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v", took)
		}
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("got %d, %v", resp.StatusCode, resp.Header)
		}
		idle, events, _ := strings.Cut(body, "event: ")
		if strings.Count(idle, ": keep-alive\n") < 3 {
			t.Errorf("the signs of life are %q", idle)
		}
		if !strings.HasPrefix(events, "response.created\n") || !strings.Contains(events, `"delta":"Hello."`) ||
			!strings.Contains(events, "event: response.completed\n") {
			t.Errorf("got %s", events)
		}
		_, rest := d.read(t, queued["id"].(string)+"?stream=true&starting_after=6")
		if !strings.HasPrefix(rest, "event: response.output_item.done\n") || strings.Contains(rest, "delta") {
			t.Errorf("after 6 comes %s", rest)
		}
	})
}

// A response that is deleted while a client waits for it is cancelled, and gone.
func TestResponseThatGoesWhileItIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		_, queued := d.do(t, http.MethodPost, "", behind)
		id := queued["id"].(string)
		got := make(chan string)
		go func() {
			_, body := d.read(t, id+"?stream=true")
			got <- body
		}()
		quietFor(t.Context(), 20*time.Second) // one sign of life is out
		synctest.Wait()
		if status, _ := d.do(t, http.MethodPost, "/"+id+"/cancel", ""); status != http.StatusOK {
			t.Fatalf("cancel: %d", status)
		}
		if body := <-got; !strings.Contains(body, "event: response.failed\n") || !strings.Contains(body, `"status":"cancelled"`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestReplayIsAskedForProperly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		_, queued := d.do(t, http.MethodPost, "", behind)
		id := "/" + queued["id"].(string)
		for query, param := range map[string]string{
			"?starting_after=3":              "starting_after",
			"?stream=false&starting_after=3": "starting_after",
			"?stream=true&starting_after=x":  "starting_after",
			"?stream=true&starting_after=-1": "starting_after",
			"?stream=yes":                    "stream",
		} {
			status, r := d.do(t, http.MethodGet, id+query, "")
			if e, _ := r["error"].(map[string]any); status != http.StatusBadRequest || e["param"] != param {
				t.Errorf("%s: got %d %v", query, status, r)
			}
		}
	})
}
