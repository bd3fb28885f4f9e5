package standin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	extensionserverpb "perigee/gen/exa/extension_server_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
	"perigee/internal/testing/perigeetest/await"
)

// TestMain is the language server itself where it is started as "simulate langserver".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(Main(ctx, Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}))
	}
	os.Exit(m.Run())
}

const testDeadline = 60 * time.Second

// processRig is a language server as a process.
type processRig struct {
	t      *testing.T
	cmd    *exec.Cmd
	home   string
	stdin  io.WriteCloser
	exited chan struct{}
	code   int
	mu     sync.Mutex
	log    bytes.Buffer
}

// A start is the parts of a process that tests choose.
type start struct {
	settings string // of the variable
	home     string // default: a new directory
	env      []string
	stdin    []byte
	open     bool // standard input stays open
	args     []string
}

func startProcess(t *testing.T, s start) *processRig {
	t.Helper()
	r := &processRig{t: t, home: s.home, exited: make(chan struct{})}
	if r.home == "" {
		r.home = t.TempDir()
	}
	r.cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{"simulate", "langserver"}, s.args...)...)
	r.cmd.Env = append([]string{"HOME=" + r.home, "PATH=" + os.Getenv("PATH"), Variable + "=" + s.settings}, s.env...)
	stderr, err := r.cmd.StderrPipe()
	check(t, err)
	r.cmd.Stdout = r
	r.stdin, err = r.cmd.StdinPipe()
	check(t, err)
	check(t, r.cmd.Start())
	go func() {
		_, _ = r.stdin.Write(s.stdin)
		if !s.open {
			_ = r.stdin.Close()
		}
	}()
	go func() {
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			_, _ = r.Write(append(lines.Bytes(), '\n'))
		}
		_ = r.cmd.Wait()
		r.code = r.cmd.ProcessState.ExitCode()
		close(r.exited)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		await.Receive(t, r.exited, "the end of the process")
		if t.Failed() {
			t.Logf("log of the language server:\n%s", r.text())
		}
	})
	return r
}

func (r *processRig) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

func (r *processRig) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// says waits for a line of the log.
func (r *processRig) says(pattern string) (found []string) {
	r.t.Helper()
	line := regexp.MustCompile(pattern)
	await.Until(r.t, "the process says "+pattern, func() bool {
		ended := false
		select {
		case <-r.exited:
			ended = true
		default:
		}
		if found = line.FindStringSubmatch(r.text()); found == nil && ended {
			r.t.Fatalf("the process ended with %d and did not say %q", r.code, pattern)
		}
		return found != nil
	})
	return found
}

// ends waits for the exit code.
func (r *processRig) ends() int {
	r.t.Helper()
	await.Receive(r.t, r.exited, "the end of the process")
	return r.code
}

// plain is the address of the port without TLS.
func (r *processRig) plain() string {
	r.t.Helper()
	return "http://127.0.0.1:" + r.says(`listening on \w+ port at (\d+) for HTTP\b[^S]`)[1]
}

func (r *processRig) secure() string {
	r.t.Helper()
	return "https://127.0.0.1:" + r.says(`listening on \w+ port at (\d+) for HTTPS`)[1]
}

// post calls a method with JSON.
func (r *processRig) post(method, body string) (status int, answer string) {
	r.t.Helper()
	return post(r.t, r.plain()+"/exa.language_server_pb.LanguageServerService/"+method, "application/json", testCSRF, body)
}

// exit calls Exit. The process may end before its answer has been sent.
func (r *processRig) exit() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testDeadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.plain()+"/exa.language_server_pb.LanguageServerService/Exit", strings.NewReader("{}"))
	check(r.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(csrfHeader, testCSRF)
	if response, err := http.DefaultClient.Do(request); err == nil {
		_ = response.Body.Close()
	}
	r.says("exiting: Exit was called")
}

const testCSRF = "5ca1ab1e-0000-4000-8000-000000000000"

func post(t *testing.T, url, contentType, csrf, body string) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	check(t, err)
	request.Header.Set("Content-Type", contentType)
	if csrf != "" {
		request.Header.Set(csrfHeader, csrf)
	}
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(t, err)
	return response.StatusCode, string(text)
}

func metadata(t *testing.T) []byte {
	t.Helper()
	b, err := proto.Marshal(&codeiumcommonpb.Metadata{IdeName: "antigravity", IdeVersion: "2.15.1", ExtensionName: "antigravity"})
	check(t, err)
	return b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// extensionRig is a small Extension Server that takes every form of a call and remembers it.
type extensionRig struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	calls   []extensionCall
	access  string                                           // in uss-oauth and as secret
	rows    map[string]*unifiedstatesyncpb.Row               // of uss-oauth, instead of access
	first   func() *extensionserverpb.UnifiedStateSyncUpdate // the first frame of uss-oauth
	raw     func(w http.ResponseWriter, topic string) bool   // answers a subscription alone
	changed chan struct{}
}

type extensionCall struct {
	method, contentType string
	enveloped           bool
	message             []byte
}

func newExtensionRig(t *testing.T, access string) *extensionRig {
	r := &extensionRig{t: t, access: access, changed: make(chan struct{})}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	ctx, cancel := context.WithCancel(context.Background())
	r.Config.BaseContext = func(net.Listener) context.Context { return ctx } // ends the streams of a process that is still running
	r.Start()
	t.Cleanup(func() {
		cancel()
		r.Close()
	})
	return r
}

func (r *extensionRig) port() string { return r.URL[strings.LastIndexByte(r.URL, ':')+1:] }

func (r *extensionRig) setAccess(access string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.access = access
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *extensionRig) seen(method string) []extensionCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.calls), func(c extensionCall) bool { return c.method != method })
}

func (r *extensionRig) serve(w http.ResponseWriter, request *http.Request) {
	if request.Header.Get(csrfHeader) != "extension-token" {
		http.Error(w, "Invalid CSRF token", http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(request.Body)
	call := extensionCall{method: filepath.Base(request.URL.Path), contentType: request.Header.Get("Content-Type"), message: body}
	if strings.HasPrefix(call.contentType, "application/connect+") && len(body) > 0 && body[0] < 8 {
		call.enveloped, call.message = true, body[5:]
	}
	r.mu.Lock()
	r.calls = append(r.calls, call)
	access := r.access
	r.mu.Unlock()
	var answer proto.Message = &extensionserverpb.LanguageServerStartedResponse{}
	switch call.method {
	case "SubscribeToUnifiedStateSyncTopic":
		r.subscribe(w, request, call.message)
		return
	case "GetSecretValue":
		answer = &extensionserverpb.GetSecretValueResponse{Value: access}
	case "LaunchBrowser":
		r.refuse(w, call, `{"code":"unimplemented","message":"no browser"}`)
		return
	}
	message, err := proto.Marshal(answer)
	check(r.t, err)
	w.Header().Set("Content-Type", call.contentType)
	if !strings.HasPrefix(call.contentType, "application/connect+") {
		_, _ = w.Write(message)
		return
	}
	writeFrame(w, 0, message)
	writeFrame(w, 2, []byte("{}"))
}

func (r *extensionRig) refuse(w http.ResponseWriter, call extensionCall, text string) {
	if strings.HasPrefix(call.contentType, "application/connect+") {
		w.Header().Set("Content-Type", call.contentType)
		writeFrame(w, 2, []byte(`{"error":`+text+`}`))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotImplemented)
	io.WriteString(w, text)
}

func writeFrame(w io.Writer, flag byte, message []byte) {
	_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...))
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (r *extensionRig) subscribe(w http.ResponseWriter, request *http.Request, message []byte) {
	var asked extensionserverpb.SubscribeToUnifiedStateSyncTopicRequest
	check(r.t, proto.Unmarshal(message, &asked))
	if r.raw != nil && r.raw(w, asked.Topic) {
		return
	}
	w.Header().Set("Content-Type", request.Header.Get("Content-Type"))
	for sent := 0; ; sent++ {
		r.mu.Lock()
		rows, changed := map[string]*unifiedstatesyncpb.Row{}, r.changed
		if asked.Topic == oauthTopic && r.rows != nil {
			rows = r.rows
		} else if asked.Topic == oauthTopic && r.access != "" {
			rows[oauthKey] = tokenRow(r.t, r.access)
		}
		r.mu.Unlock()
		var update *extensionserverpb.UnifiedStateSyncUpdate
		switch {
		case sent == 0 && asked.Topic == oauthTopic && r.first != nil:
			update = r.first()
		case sent == 0:
			update = &extensionserverpb.UnifiedStateSyncUpdate{UpdateType: &extensionserverpb.UnifiedStateSyncUpdate_InitialState{InitialState: &unifiedstatesyncpb.Topic{Data: rows}}}
		case asked.Topic == oauthTopic:
			update = appliedUpdate(&unifiedstatesyncpb.AppliedUpdate{Key: oauthKey, NewRow: rows[oauthKey], Deleted: rows[oauthKey] == nil})
		default:
			update = appliedUpdate(&unifiedstatesyncpb.AppliedUpdate{})
		}
		frame, err := proto.Marshal(update)
		check(r.t, err)
		writeFrame(w, 0, frame)
		select {
		case <-changed:
		case <-request.Context().Done():
			return
		}
	}
}

func appliedUpdate(update *unifiedstatesyncpb.AppliedUpdate) *extensionserverpb.UnifiedStateSyncUpdate {
	return &extensionserverpb.UnifiedStateSyncUpdate{UpdateType: &extensionserverpb.UnifiedStateSyncUpdate_AppliedUpdate{AppliedUpdate: update}}
}

func tokenRow(t *testing.T, access string) *unifiedstatesyncpb.Row {
	message, err := proto.Marshal(&languageserverpb.OAuthTokenInfo{AccessToken: access, TokenType: "Bearer", Expiry: timestamppb.New(time.Now().Add(time.Hour))})
	check(t, err)
	return &unifiedstatesyncpb.Row{Value: base64.StdEncoding.EncodeToString(message), ETag: 1}
}

// flags is the command line of an IDE, in the form of the generation in the settings.
func (r *extensionRig) flags(settings string, more ...string) []string {
	args := []string{"--csrf_token", testCSRF, "--extension_server_port", r.port(), "--extension_server_csrf_token", "extension-token", "--enable_lsp",
		"--app_data_dir", "standin-test"}
	if generationOf(settings) == classic {
		args = append(args, "--random_port")
	} else {
		args = append(args, "--https_server_port", "0", "--http_server_port", "0")
	}
	return append(args, more...)
}

func generationOf(text string) string {
	s, err := parseSettings(text)
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return cmp.Or(s.generation, classic2)
}
