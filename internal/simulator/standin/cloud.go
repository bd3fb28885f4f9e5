package standin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
)

// cloud is the client of the cloud endpoint, with its last answers.
type cloud struct {
	p       *process
	client  *http.Client
	session string // a signed number, the same for all conversations

	mu       sync.Mutex
	endpoint string
	project  string
	models   []cloudModel // sorted by id; empty until the cloud has answered
}

// A cloudModel is an entry of fetchAvailableModels with the language server's number of the model.
type cloudModel struct {
	ID   string `json:"-"`
	Enum int32  `json:"-"`
	// the name of the number, from clouds that send it
	Model            string          `json:"model"`
	DisplayName      string          `json:"displayName"`
	MaxOutputTokens  int             `json:"maxOutputTokens"`
	SupportsImages   bool            `json:"supportsImages"`
	SupportsThinking bool            `json:"supportsThinking"`
	ThinkingBudget   int             `json:"thinkingBudget"`
	Recommended      bool            `json:"recommended"`
	MIMETypes        map[string]bool `json:"supportedMimeTypes"`
	Quota            *struct {
		RemainingFraction float32   `json:"remainingFraction"`
		ResetTime         time.Time `json:"resetTime"`
	} `json:"quotaInfo"`
}

func newCloud(p *process) *cloud {
	// As by default in Go: proxies and roots come from the environment, gzip is accepted.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4,
		TLSHandshakeTimeout: 30 * time.Second, IdleConnTimeout: 90 * time.Second}
	if p.http != "" {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(p.http == "1.1")
		transport.Protocols.SetHTTP2(p.http == "2")
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	return &cloud{p: p, client: &http.Client{Transport: cleartext{transport}}, endpoint: p.cloudEndpoint,
		session: strconv.FormatInt(int64(binary.BigEndian.Uint64(b[:])), 10)}
}

// cleartext sends requests without TLS over HTTP/1.1, whichever version is set for TLS.
type cleartext struct{ tls *http.Transport }

func (c cleartext) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme == "http" {
		return plainTransport.RoundTrip(request)
	}
	return c.tls.RoundTrip(request)
}

var plainTransport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second}

func (c *cloud) setEndpoint(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoint = endpoint
}

// run loads the project and the models as soon as there is a token. They are not loaded again when
// the token changes.
func (c *cloud) run(ctx context.Context) {
	said := ""
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		_, err := c.p.tokens.bearer(ctx)
		if err != nil {
			pause = 100 * time.Millisecond // only the cloud needs rest
		} else if err = c.learn(ctx); err == nil {
			break
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			c.p.log.error("failed to fetch the models: %v", err)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
	c.p.log.info("fetched %d models for the project", len(c.known()))
	// These two are for the user interface and for statistics: their outcome changes nothing.
	for method, body := range map[string]any{"fetchUserInfo": struct{}{}, "recordCodeAssistMetrics": map[string]any{"metadata": c.metadata()}} {
		if err := c.control(ctx, method, body, nil); err != nil {
			c.p.log.warn("%s failed: %v", method, err)
		}
	}
}

func (c *cloud) metadata() map[string]string {
	return map[string]string{"ideType": "ANTIGRAVITY", "ideVersion": c.p.ideVersion(), "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"}
}

// learn loads the project and the models.
func (c *cloud) learn(ctx context.Context) error {
	var assist struct {
		Project json.RawMessage `json:"cloudaicompanionProject"`
	}
	if err := c.control(ctx, "loadCodeAssist", map[string]any{"metadata": c.metadata()}, &assist); err != nil {
		return err
	}
	var project string
	var object struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(assist.Project, &project) != nil && json.Unmarshal(assist.Project, &object) == nil {
		project = object.ID
	}
	if project == "" {
		return fmt.Errorf("the account has no project; onboard it first")
	}
	var available struct {
		Models map[string]cloudModel `json:"models"`
	}
	if err := c.control(ctx, "fetchAvailableModels", map[string]string{"project": project}, &available); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.project, c.models = project, numberModels(available.Models)
	return nil
}

func (c *cloud) known() []cloudModel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.models
}

func (c *cloud) byEnum(enum int32) (cloudModel, bool) {
	models := c.known()
	i := slices.IndexFunc(models, func(m cloudModel) bool { return m.Enum == enum })
	if i < 0 {
		return cloudModel{}, false
	}
	return models[i], true
}

// small returns the model for calls in the background, or the given one.
func (c *cloud) small(otherwise cloudModel) cloudModel {
	for _, m := range c.known() {
		if strings.Contains(m.ID, "flash-lite") {
			return m
		}
	}
	return otherwise
}

// enums are numbers that have been seen for ids.
var enums = map[string]int32{
	"gemini-2.5-pro": 246, "gemini-2.5-flash": 312, "gpt-oss-120b-medium": 342, "gemini-3-flash": 1018, "claude-opus-4-6-thinking": 1026,
	"claude-sonnet-4-6": 1035, "gemini-3.1-pro-low": 1036, "gemini-pro-agent": 1037, "gemini-3-flash-agent": 1132,
}

// firstPlaceholder is the number of MODEL_PLACEHOLDER_M0.
const firstPlaceholder = 1000

// numberModels gives each model its number: the one that the cloud sends, a known one, or one that
// depends on the ID. Numbers of the last kind have no name in the messages of perigee, like models
// that are newer than a client.
func numberModels(entries map[string]cloudModel) []cloudModel {
	taken := map[int32]bool{}
	for _, enum := range enums {
		taken[enum] = true
	}
	var models []cloudModel
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		m := entries[id]
		m.ID, m.Enum = id, enums[id]
		if n, ok := placeholderNumber(m.Model); ok {
			m.Enum = n
		}
		if m.Enum == 0 {
			h := fnv.New32a()
			io.WriteString(h, id)
			for m.Enum = firstPlaceholder + 400 + int32(h.Sum32()%500); taken[m.Enum]; m.Enum++ {
			}
			taken[m.Enum] = true
		}
		if m.DisplayName == "" || strings.Contains(id, "image") {
			continue // no model for conversations
		}
		models = append(models, m)
	}
	return models
}

// enumName returns the name of a model number, including numbers without a name in the messages of
// perigee.
func enumName(enum int32) string {
	if name, ok := codeiumcommonpb.Model_name[enum]; ok {
		return name
	}
	return "MODEL_PLACEHOLDER_M" + strconv.Itoa(int(enum-firstPlaceholder))
}

func placeholderNumber(name string) (int32, bool) {
	if n, ok := codeiumcommonpb.Model_value[name]; ok {
		return n, n != 0
	}
	digits, ok := strings.CutPrefix(name, "MODEL_PLACEHOLDER_M")
	n, err := strconv.ParseInt(digits, 10, 31)
	return firstPlaceholder + int32(n), ok && err == nil
}

// config returns the entry of a model in the lists of LanguageServerService.
func (m cloudModel) config() *codeiumcommonpb.ClientModelConfig {
	config := &codeiumcommonpb.ClientModelConfig{Label: m.DisplayName, SupportsImages: m.SupportsImages, IsRecommended: m.Recommended,
		SupportedMimeTypes: m.MIMETypes,
		ModelOrAlias:       &codeiumcommonpb.ModelOrAlias{Choice: &codeiumcommonpb.ModelOrAlias_Model{Model: codeiumcommonpb.Model(m.Enum)}}}
	if m.Quota != nil {
		config.QuotaInfo = &codeiumcommonpb.QuotaInfo{RemainingFraction: m.Quota.RemainingFraction, ResetTime: timestamppb.New(m.Quota.ResetTime)}
	}
	return config
}

// control makes a call and reads its answer, which is one JSON object.
func (c *cloud) control(ctx context.Context, method string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	response, err := c.post(ctx, method, "", body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return readCloudError(response)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(response.Body, 16<<20)).Decode(answer)
}

// post sends a body without saying how long it is, as the real client does through proxies.
func (c *cloud) post(ctx context.Context, method, query string, body any) (*http.Response, error) {
	bearer, err := c.p.tokens.bearer(ctx)
	if err != nil {
		return nil, &cloudError{status: http.StatusUnauthorized, message: err.Error(), body: err.Error()}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	c.mu.Lock()
	endpoint := c.endpoint
	c.mu.Unlock()
	address, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	address = address.JoinPath("v1internal:" + method)
	address.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), nil)
	if err != nil {
		return nil, err
	}
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }
	request.Body, _ = request.GetBody()
	request.ContentLength = -1
	request.Header.Set("Authorization", "Bearer "+bearer)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", fmt.Sprintf("antigravity/%s %s/%s", c.p.ideVersion(), runtime.GOOS, runtime.GOARCH))
	return c.client.Do(request)
}

// A cloudError is a failure of the cloud that reaches the conversation.
type cloudError struct {
	status  int
	code    string // as in RESOURCE_EXHAUSTED
	message string
	body    string
	details []string
}

func (e *cloudError) Error() string {
	return fmt.Sprintf("%s (code %d): %s", cmp.Or(e.code, http.StatusText(e.status)), e.status, e.message)
}

func readCloudError(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return newCloudError(response.StatusCode, body)
}

// newCloudError reads an error of the cloud, which may be an object, an array of one, or a page.
func newCloudError(status int, body []byte) *cloudError {
	type object struct {
		Error struct {
			Code    int               `json:"code"`
			Message string            `json:"message"`
			Status  string            `json:"status"`
			Details []json.RawMessage `json:"details"`
		} `json:"error"`
	}
	var one object
	var several []object
	if json.Unmarshal(body, &one) != nil && json.Unmarshal(body, &several) == nil && len(several) > 0 {
		one = several[0]
	}
	e := &cloudError{status: cmp.Or(status, one.Error.Code), code: one.Error.Status, message: one.Error.Message, body: string(body)}
	for _, detail := range one.Error.Details {
		e.details = append(e.details, string(detail))
	}
	if e.message == "" {
		e.message = strings.TrimSpace(string(body[:min(len(body), 500)]))
	}
	return e
}
