package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

// cloudRig is the simulator as the cloud, and the requests that it was sent.
type cloudRig struct {
	*httptest.Server
	t   *testing.T
	sim *simulator.Server

	hold chan struct{} // requests with the text "hold on" wait until it is closed

	mu       sync.Mutex
	requests []cloudRequest
}

type cloudRequest struct {
	method, bearer, agent, proto string
	length                       int64
	body                         []byte
}

func newCloudRig(t *testing.T, options simulator.Options) *cloudRig {
	sim, err := simulator.New(options)
	check(t, err)
	c := &cloudRig{t: t, sim: sim, hold: make(chan struct{})}
	c.Server = httptest.NewUnstartedServer(c)
	c.Start()
	t.Cleanup(func() {
		_ = sim.Close()
		c.Close()
	})
	return c
}

func (c *cloudRig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, method, _ := strings.Cut(r.URL.Path, ":")
	c.mu.Lock()
	c.requests = append(c.requests, cloudRequest{method, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.UserAgent(), r.Proto, r.ContentLength, body})
	c.mu.Unlock()
	if bytes.Contains(body, []byte("hold on")) {
		select {
		case <-c.hold:
		case <-r.Context().Done():
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.sim.ServeHTTP(w, r)
}

// token signs an account in.
func (c *cloudRig) token(account string) string {
	c.t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"c"}, "client_secret": {"s"}, "refresh_token": {"sim-refresh-" + account}}
	response, err := http.PostForm(c.URL+"/token", form)
	check(c.t, err)
	defer response.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	check(c.t, json.NewDecoder(response.Body).Decode(&answer))
	if answer.AccessToken == "" {
		c.t.Fatalf("no token: %s", response.Status)
	}
	return answer.AccessToken
}

// generations are the content requests of a type.
func (c *cloudRig) generations(kind string) []cloudRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.requests), func(r cloudRequest) bool {
		var e envelope
		return r.method != "streamGenerateContent" || json.Unmarshal(r.body, &e) != nil || e.RequestType != kind
	})
}

// serverRig is a language server that is signed in at a simulated cloud.
type serverRig struct {
	*processRig
	cloud     *cloudRig
	extension *extensionRig // nil for the hub
	args      []string
	settings  string
}

func newServerRig(t *testing.T, settings string, options simulator.Options) *serverRig {
	t.Helper()
	r := &serverRig{cloud: newCloudRig(t, options), settings: settings}
	token := r.cloud.token("ada")
	home := t.TempDir()
	if generationOf(settings) == hub {
		r.args = []string{"--standalone", "--csrf_token", testCSRF, "--cloud_code_endpoint", r.cloud.URL, "--override_ide_version", "2.15.1", "--app_data_dir", "standin-test"}
		writeToken(t, home, token)
	} else {
		r.extension = newExtensionRig(t, token)
		r.args = r.extension.flags(settings, "--cloud_code_endpoint", r.cloud.URL)
	}
	r.start(t, home)
	return r
}

func (r *serverRig) start(t *testing.T, home string) {
	t.Helper()
	r.processRig = startProcess(t, start{settings: r.settings, home: home, stdin: metadata(t), args: r.args})
	r.says(`fetched \d+ models`)
}

func writeToken(t *testing.T, home, token string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Join(home, ".gemini"), 0o700))
	path := filepath.Join(home, ".gemini", tokenFile)
	text := fmt.Sprintf(`{"token":{"access_token":%q,"token_type":"Bearer","expiry":%q}}`, token, time.Now().Add(time.Hour).Format(time.RFC3339))
	check(t, os.WriteFile(path+".new", []byte(text), 0o600))
	check(t, os.Rename(path+".new", path))
}

// call posts JSON and decodes the answer, which has to be a success.
func (r *serverRig) call(method, body string) map[string]any {
	r.t.Helper()
	status, text := r.post(method, body)
	var answer map[string]any
	if status != 200 || json.Unmarshal([]byte(text), &answer) != nil {
		r.t.Fatalf("%s %s: %d %s", method, body, status, text)
	}
	return answer
}

func dig(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

const flash = `"cascadeConfig":{"plannerConfig":{"conversational":{"plannerMode":"CONVERSATIONAL_PLANNER_MODE_DEFAULT"},"planModel":"MODEL_PLACEHOLDER_M18","requestedModel":{"model":"MODEL_PLACEHOLDER_M18"}}}`

func sendBody(cascade, text, config string) string {
	quoted, _ := json.Marshal(text)
	if config != "" {
		config = "," + config
	}
	return fmt.Sprintf(`{"cascadeId":%q,"items":[{"text":%s}]%s}`, cascade, quoted, config)
}

// say sends a message in a new conversation and returns its id.
func (r *serverRig) say(text string) string {
	r.t.Helper()
	id, _ := r.call("StartCascade", `{"source":"CORTEX_TRAJECTORY_SOURCE_CASCADE_CLIENT"}`)["cascadeId"].(string)
	r.call("SendUserCascadeMessage", sendBody(id, text, flash))
	return id
}

// step is a step in short.
type step struct {
	kind, status, text string
	raw                map[string]any
}

func (r *serverRig) steps(cascade string) (status string, steps []step) {
	r.t.Helper()
	answer := r.call("GetCascadeTrajectory", fmt.Sprintf(`{"cascadeId":%q}`, cascade))
	status, _ = answer["status"].(string)
	list, _ := dig(answer, "trajectory", "steps").([]any)
	for total, _ := answer["numTotalSteps"].(float64); len(list) < int(total); {
		more, _ := r.call("GetCascadeTrajectorySteps", fmt.Sprintf(`{"cascadeId":%q,"stepOffset":%d}`, cascade, len(list)))["steps"].([]any)
		if len(more) == 0 {
			break
		}
		list = append(list, more...)
	}
	for _, raw := range list {
		s := step{raw: raw.(map[string]any)}
		kind, _ := s.raw["type"].(string)
		state, _ := s.raw["status"].(string)
		s.kind, s.status = strings.TrimPrefix(kind, "CORTEX_STEP_TYPE_"), strings.TrimPrefix(state, "CORTEX_STEP_STATUS_")
		s.text, _ = dig(raw, "plannerResponse", "response").(string)
		steps = append(steps, s)
	}
	return strings.TrimPrefix(status, "CASCADE_RUN_STATUS_"), steps
}

// finishes waits for the end of a turn with at least so many steps.
func (r *serverRig) finishes(cascade string, least int) []step {
	r.t.Helper()
	var steps []step
	await.Until(r.t, "the end of the turn", func() bool {
		var status string
		status, steps = r.steps(cascade)
		return status == "IDLE" && len(steps) >= least
	})
	return steps
}

// waits waits for a step that needs the user.
func (r *serverRig) waits(cascade string) (index int, s step) {
	r.t.Helper()
	await.Until(r.t, "a waiting step", func() bool {
		_, steps := r.steps(cascade)
		index = slices.IndexFunc(steps, func(s step) bool { return s.status == "WAITING" })
		if index >= 0 {
			s = steps[index]
		}
		return index >= 0
	})
	return index, s
}

func kinds(steps []step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.kind+" "+s.status)
	}
	return strings.Join(all, ", ")
}
