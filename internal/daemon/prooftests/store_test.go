package prooftests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// 40 turns of 20 KB took 17.5 MB, and 80 turns 69 MB: each stored response had the whole
// conversation.
func TestStoredConversationsTakeLinearSpace(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	const turns, size = 40, 20 << 10
	for _, whole := range []bool{false, true} {
		dir := daemontest.DataDir(t)
		g := daemontest.StartIn(t, daemontest.Sources("", dir), nil)
		var ids, said []string
		for n := range turns {
			said = append(said, fmt.Sprintf(`{"role":"user","content":%q}`, fmt.Sprintf("%03d ", n)+strings.Repeat("x", size)))
			body := `{"model":"gemini-3-flash","max_output_tokens":50,"input":[` + said[n] + `]`
			switch {
			case whole:
				body = `{"model":"gemini-3-flash","max_output_tokens":50,"input":[` + strings.Join(said, ",") + `]`
			case n > 0:
				body += `,"previous_response_id":"` + ids[n-1] + `"`
			}
			ids = append(ids, daemontest.Send(t, g, "/v1/responses", body+`}`)["id"].(string))
		}
		get := func(path string) (int, string) {
			resp, err := daemontest.Client.Get(g.URL() + path)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, daemontest.Rest(t, resp)
		}
		// A response in the middle can go, and those that go on from it stay as they are.
		req, _ := http.NewRequest(http.MethodDelete, g.URL()+"/v1/responses/"+ids[20], nil)
		if resp, err := daemontest.Client.Do(req); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("deleting: %v", err)
		} else {
			daemontest.Rest(t, resp)
		}
		if code, _ := get("/v1/responses/" + ids[20]); code != http.StatusNotFound {
			t.Errorf("the deleted response has status %d", code)
		}
		code, raw := get("/v1/responses/" + ids[turns-1] + "/input_items?limit=100&order=asc")
		var page struct {
			Data []struct {
				ID, Role string
				Content  []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(raw), &page); err != nil || code != http.StatusOK {
			t.Fatalf("input items: %d, %v", code, err)
		}
		users := 0
		for _, item := range page.Data {
			if item.Role != "user" {
				continue
			}
			if want := fmt.Sprintf("%03d xxx", users); len(item.Content) != 1 || !strings.HasPrefix(item.Content[0].Text, want) || len(item.Content[0].Text) != size+4 {
				t.Errorf("item %d is not what was said", users)
			}
			users++
		}
		if users != turns {
			t.Errorf("%d of %d items are there", users, turns)
		}
		g.Daemon.Stop(t.Context()) // which moves the log into the file
		info, err := os.Stat(filepath.Join(dir, "perigee.db"))
		if err != nil || info.Size() > 3*turns*size {
			t.Errorf("whole %v: %d turns of 20 KB take %d bytes, %v", whole, turns, info.Size(), err)
		}
	}
}
