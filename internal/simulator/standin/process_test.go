package standin

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	extensionserverpb "perigee/gen/exa/extension_server_pb"
	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
	"perigee/internal/testing/perigeetest/await"

	"google.golang.org/protobuf/proto"
)

func TestUnknownFlagPrintsTheFlagsOfItsGeneration(t *testing.T) {
	t.Parallel()
	has := map[string][]string{
		classic:  {"random_port", "server_port", "extension_server_port", "parent_pipe_path", "lsp_port"},
		classic2: {"https_server_port", "http_server_port", "extension_server_csrf_token", "subclient_type"},
		hub:      {"standalone", "https_server_port", "exit_on_stdin_close", "override_ide_version", "enable_sidecars"},
	}
	lacks := map[string][]string{
		classic:  {"https_server_port", "exit_on_stdin_close"},
		classic2: {"random_port", "server_port", "standalone"},
		hub:      {"random_port", "extension_server_port", "parent_pipe_path"},
	}
	for generation := range has {
		r := startProcess(t, start{settings: "generation=" + generation, args: []string{"--no_such_flag"}})
		if code := r.ends(); code != 2 {
			t.Errorf("%s: exit code %d", generation, code)
		}
		text := r.text()
		if !strings.HasPrefix(text, "flag provided but not defined: -no_such_flag\nUsage of ") {
			t.Errorf("%s: begins with %.100q", generation, text)
		}
		for _, name := range has[generation] {
			if !strings.Contains(text, "\n  -"+name) {
				t.Errorf("%s lacks -%s", generation, name)
			}
		}
		for _, name := range lacks[generation] {
			if strings.Contains(text, "\n  -"+name+" ") || strings.Contains(text, "\n  -"+name+"\n") {
				t.Errorf("%s has -%s", generation, name)
			}
		}
	}
}

func TestSettingsThatAreWrongAreExplained(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"generation=third":           `generation is "third", not one of classic, classic2, hub, hub2`,
		"colour=red":                 `unknown key "colour"`,
		"fault=meteor":               `unknown fault "meteor"`,
		"fault=slow-start:fast":      `"fast" is no duration`,
		"fault=crash-on-send:0":      `not a number of at least 1`,
		"fault=ignore-exit:3":        `takes no value`,
		"generation=hub belief=bare": `has no Extension Server`,
	} {
		r := startProcess(t, start{settings: settings})
		if code := r.ends(); code != 2 || !strings.Contains(r.text(), want) {
			t.Errorf("%s: exit code %d, %s", settings, code, r.text())
		}
	}
	r := startProcess(t, start{settings: "version=1.2.3", args: []string{"--stamp"}})
	if code := r.ends(); code != 0 || r.text() != "842159234\n" { // a changelist, whatever the version is
		t.Errorf("--stamp: exit code %d, %q", code, r.text())
	}
	r = startProcess(t, start{args: []string{"--help-standin"}})
	if code := r.ends(); code != 0 || !strings.Contains(r.text(), "crash-on-send") || !strings.Contains(r.text(), "belief=") {
		t.Errorf("--help-standin: exit code %d, %q", code, r.text())
	}
}

func TestMetadataIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdin, parent := io.Pipe()
		p, read := &process{settings: settings{generation: classic2}, stdin: stdin}, make(chan error, 1)
		go func() { read <- p.readMetadata(t.Context()) }()
		_, err := parent.Write(metadata(t))
		check(t, err)
		if synctest.Wait(); len(read) != 0 {
			t.Error("it goes on although standard input is open")
		}
		check(t, parent.Close())
		if err := <-read; err != nil || p.metadata.IdeName != "antigravity" {
			t.Errorf("read %v, %v", p.metadata, err)
		}
	})
	r := startProcess(t, start{stdin: metadata(t), open: true, args: []string{"--csrf_token", testCSRF}})
	r.says(`Starting language server process with pid \d+`)
	check(t, r.stdin.Close())
	r.plain()
	r.says(`initialized server successfully in \d+ms`)

	r = startProcess(t, start{stdin: []byte("\xff\xff\xff")})
	if code := r.ends(); code != 1 || !strings.Contains(r.text(), "failed to unmarshal initial metadata") {
		t.Errorf("invalid metadata: exit code %d, %s", code, r.text())
	}
}

func TestHubLivesOnStandardInput(t *testing.T) {
	t.Parallel()
	r := startProcess(t, start{settings: "generation=hub", open: true, args: []string{"--standalone", "--exit_on_stdin_close", "--csrf_token", testCSRF}})
	r.plain()
	check(t, r.stdin.Close())
	if code := r.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	r = startProcess(t, start{settings: "generation=hub", args: []string{"--standalone", "--csrf_token", testCSRF}})
	if status, body := r.post("Heartbeat", "{}"); status != 200 {
		t.Errorf("without the flag: %d %s", status, body)
	}
}

func TestParentPipeIsTheLifeLine(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pipe") // a short path
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "server_0")
	r := startProcess(t, start{stdin: metadata(t), args: []string{"--parent_pipe_path", path}})
	if code := r.ends(); code != 1 || strings.Contains(r.text(), "listening") || !strings.Contains(r.text(), "failed to connect to parent pipe") {
		t.Errorf("without a listener: exit code %d, %s", code, r.text())
	}
	l, err := net.Listen("unix", path)
	check(t, err)
	defer l.Close()
	accept := func() net.Conn {
		conn, err := l.Accept()
		check(t, err)
		return conn
	}
	r = startProcess(t, start{stdin: metadata(t), args: []string{"--parent_pipe_path", path, "--csrf_token", testCSRF}})
	conn := accept()
	r.plain()
	check(t, conn.Close())
	if code := r.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	r = startProcess(t, start{settings: "fault=ignore-lifeline", stdin: metadata(t), args: []string{"--parent_pipe_path", path, "--csrf_token", testCSRF}})
	check(t, accept().Close())
	r.says("ignoring that parent pipe was closed")
	if status, body := r.post("Heartbeat", "{}"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

func TestPortsSpeakTheirProtocols(t *testing.T) {
	t.Parallel()
	r := startProcess(t, start{stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	path := "/exa.language_server_pb.LanguageServerService/Heartbeat"
	if status, body := post(t, strings.Replace(r.secure(), "https", "http", 1)+path, "application/json", testCSRF, "{}"); status != 400 || !strings.Contains(body, "HTTPS server") {
		t.Errorf("plain request to the TLS port: %d %s", status, body)
	}
	if status, body := post(t, r.plain()+path, "application/json", "", "{}"); status != 401 || strings.TrimSpace(body) != "missing CSRF token" {
		t.Errorf("without a token: %d %s", status, body)
	}
	if status, _ := post(t, r.plain()+path, "application/json", "wrong", "{}"); status != 401 {
		t.Errorf("with a wrong token: %d", status)
	}
	if status, body := r.post("Heartbeat", `{"heart":1}`); status != 400 || !strings.Contains(body, "unknown field") {
		t.Errorf("unknown field: %d %s", status, body)
	}
	if status, _ := r.post("StreamAgentStateUpdates", `{}`); status != 415 {
		t.Errorf("unary content type on a stream: %d", status)
	}
	if status, _ := r.post("GetDebugDiagnostics", `{}`); status != 404 {
		t.Errorf("unknown method: %d", status)
	}
	for _, version := range []int{1, 2} {
		for _, url := range []string{r.plain(), r.secure()} {
			var protocols http.Protocols
			protocols.SetHTTP1(version == 1)
			protocols.SetHTTP2(version == 2)
			protocols.SetUnencryptedHTTP2(version == 2)
			client := &http.Client{Transport: &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			request, err := http.NewRequest("POST", url+path, strings.NewReader("{}"))
			check(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set(csrfHeader, testCSRF)
			response, err := client.Do(request)
			check(t, err)
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			client.CloseIdleConnections()
			if response.StatusCode != 200 || response.ProtoMajor != version {
				t.Errorf("HTTP/%d on %s: %s %s", version, url, response.Proto, response.Status)
			}
		}
	}
}

func TestPersistentModeAnnouncesItsPorts(t *testing.T) {
	t.Parallel()
	r := startProcess(t, start{settings: "version=2.1.1", stdin: metadata(t), args: []string{"--csrf_token", testCSRF, "--persistent_mode", "--app_data_dir", "own", "--workspace_id", "file_w"}})
	r.says("initialized server")
	found, err := filepath.Glob(filepath.Join(r.home, ".gemini", "own", "daemon", "ls_????????????????.json"))
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("found %q", found)
	}
	text, err := os.ReadFile(found[0])
	check(t, err)
	var file announcement
	check(t, json.Unmarshal(text, &file))
	if file.PID != r.cmd.Process.Pid || file.CSRFToken != testCSRF || file.LSVersion != "2.1.1" || !strings.HasSuffix(r.plain(), ":"+strconv.Itoa(file.HTTPPort)) ||
		!strings.HasSuffix(r.secure(), ":"+strconv.Itoa(file.HTTPSPort)) {
		t.Errorf("%s", text)
	}
}

func TestSignalsAndExitEndTheProcess(t *testing.T) {
	t.Parallel()
	r := startProcess(t, start{stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	request, err := http.NewRequest("POST", r.plain()+"/exa.language_server_pb.LanguageServerService/Exit", strings.NewReader("{}"))
	check(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(csrfHeader, testCSRF)
	if response, err := http.DefaultClient.Do(request); err == nil { // on a busy machine the process can end before its answer is sent
		response.Body.Close()
		if response.StatusCode != 200 {
			t.Fatal(response.Status)
		}
	}
	if code := r.ends(); code != 0 {
		t.Errorf("Exit: exit code %d", code)
	}
	r = startProcess(t, start{stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	r.plain()
	check(t, r.cmd.Process.Signal(syscall.SIGTERM))
	if code := r.ends(); code != 0 {
		t.Errorf("SIGTERM: exit code %d", code)
	}
	r = startProcess(t, start{stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	url := r.plain() + "/exa.language_server_pb.LanguageServerService/SimulateSegFault"
	request, err = http.NewRequest("POST", url, strings.NewReader("{}"))
	check(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(csrfHeader, testCSRF)
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
		t.Errorf("an answer: %s", response.Status)
	}
	if code := r.ends(); code != 2 || !strings.Contains(r.text(), "panic: runtime error") {
		t.Errorf("SimulateSegFault: exit code %d", code)
	}
	r = startProcess(t, start{settings: "fault=ignore-exit", stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	r.post("Exit", "{}")
	check(t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.says("ignoring Exit")
	r.says("ignoring the signal terminated")
	if status, body := r.post("Heartbeat", "{}"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
}

func TestExtensionServerIsCalledAsBelieved(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"generation=classic", "generation=classic2", "belief=bare", "belief=stream", "belief=stream,bare,secret"} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			s, err := parseSettings(settings)
			check(t, err)
			e := newExtensionRig(t, "first")
			r := startProcess(t, start{settings: settings, stdin: metadata(t), args: e.flags(settings)})
			await.Until(t, "a push", func() bool { return len(e.seen("PushUnifiedStateSyncUpdate")) > 0 })
			await.Until(t, "all subscriptions", func() bool { return len(e.seen("SubscribeToUnifiedStateSyncTopic")) == len(subscribed) })
			e.mu.Lock()
			calls := e.calls
			e.mu.Unlock()
			for i, method := range []string{"LanguageServerStarted", "LaunchBrowser", "GetChromeDevtoolsMcpUrl"} {
				for calls[i].method == "GetSecretValue" {
					calls = append(calls[:i:i], calls[i+1:]...) // may come at any time
				}
				if calls[i].method != method {
					t.Errorf("call %d is %s, not %s", i, calls[i].method, method)
				}
			}
			for _, c := range calls {
				streams := s.stream || c.method == "SubscribeToUnifiedStateSyncTopic"
				want := "application/proto"
				if streams {
					want = "application/connect+proto"
				}
				if c.contentType != want {
					t.Errorf("%s has type %s", c.method, c.contentType)
				}
				if want := streams && !s.bare; c.enveloped != want && len(c.message) > 0 {
					t.Errorf("%s: enveloped is %v", c.method, c.enveloped)
				}
			}
			var started extensionserverpb.LanguageServerStartedRequest
			check(t, proto.Unmarshal(calls[0].message, &started))
			if !strings.HasSuffix(r.plain(), ":"+strconv.Itoa(int(started.HttpPort))) || !strings.HasSuffix(r.secure(), ":"+strconv.Itoa(int(started.HttpsPort))) || started.LspPort == 0 {
				t.Errorf("reported %v", &started)
			}
			var push extensionserverpb.PushUnifiedStateSyncUpdateRequest
			check(t, proto.Unmarshal(e.seen("PushUnifiedStateSyncUpdate")[0].message, &push))
			if u := push.Update; u.TopicName != summariesTopic || (u.AppliedUpdate == nil) != (s.generation == classic) {
				t.Errorf("pushed %v", u)
			}
			if !s.secret {
				r.says("received OAuth token info")
				r.says("failed to fetch the models: .*unsupported protocol scheme") // there is a token, and no endpoint
			} else {
				await.Until(t, "a secret asked for", func() bool { return len(e.seen("GetSecretValue")) > 0 })
			}
			r.says("LaunchBrowser failed: unimplemented: no browser")
		})
	}
}

func TestStateThatIsWrongLeavesItSignedOut(t *testing.T) {
	t.Parallel()
	first := func(update *extensionserverpb.UnifiedStateSyncUpdate) func(*extensionRig) {
		return func(e *extensionRig) { e.first = func() *extensionserverpb.UnifiedStateSyncUpdate { return update } }
	}
	row := func(key, value string) func(*extensionRig) {
		return func(e *extensionRig) { e.rows = map[string]*unifiedstatesyncpb.Row{key: {Value: value}} }
	}
	raw := func(answer func(w http.ResponseWriter)) func(*extensionRig) {
		return func(e *extensionRig) {
			e.raw = func(w http.ResponseWriter, topic string) bool {
				if topic == oauthTopic {
					answer(w)
				}
				return topic == oauthTopic
			}
		}
	}
	good := func(e *extensionRig) string { return tokenRow(e.t, "t").Value }
	for name, test := range map[string]struct {
		prepare func(*extensionRig)
		says    string
	}{
		"no initial state": {first(appliedUpdate(&unifiedstatesyncpb.AppliedUpdate{Key: oauthKey})), "expected initial state as first message"},
		"wrong key":        {func(e *extensionRig) { row("oauthTokenInfo", good(e))(e) }, "key not found: oauthTokenInfoSentinelKey"},
		"no base64":        {row(oauthKey, "ya29.token!"), "illegal base64 data"},
		"no message":       {row(oauthKey, "////"), "failed to unmarshal row"},
		"another message":  {row(oauthKey, "CAE="), "failed to unmarshal OAuthTokenInfo|has no access token"},
		"no frames":        {raw(func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/connect+proto") }), "unexpected EOF|missing end"},
		"cut frame": {raw(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/connect+proto")
			io.WriteString(w, "\x00\x00\x00\x00\x09x")
		}), "incomplete envelope|unexpected EOF|promised 9 bytes"},
		"invalid UTF-8": {raw(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/connect+proto")
			writeFrame(w, 0, []byte("\x0a\x0b\x0a\x09\x0a\x01k\x12\x04\x0a\x02\xff\xfe"))
			writeFrame(w, 2, []byte("{}"))
		}), "invalid UTF-8"},
		"unary content type": {raw(func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/proto") }), `invalid content-type: "application/proto"; expecting "application/connect\+proto"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExtensionRig(t, "")
			test.prepare(e)
			r := startProcess(t, start{stdin: metadata(t), args: e.flags("")})
			r.says(test.says)
			if status, body := r.post("GetUserStatus", "{}"); status != 401 || !strings.Contains(body, "CREDENTIALS_MISSING") {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestStreamsAreOpenedAgain(t *testing.T) {
	t.Parallel()
	e := newExtensionRig(t, "")
	ended := make(chan struct{}, 100)
	e.raw = func(w http.ResponseWriter, topic string) bool {
		if topic != "uss-theme" || len(ended) >= 3 {
			return false
		}
		ended <- struct{}{}
		w.Header().Set("Content-Type", "application/connect+proto")
		writeFrame(w, 0, []byte("\x0a\x00"))
		writeFrame(w, 2, []byte("{}"))
		return true
	}
	r := startProcess(t, start{stdin: metadata(t), args: e.flags("")})
	await.Until(t, "a fourth stream", func() bool { return len(e.seen("SubscribeToUnifiedStateSyncTopic")) == len(subscribed)+3 })
	r.says("topic uss-theme: stream ended: EOF; reconnecting")

	other := newExtensionRig(t, "second")
	if status, body := r.post("ReconnectExtensionServer", `{"extensionServerPort":`+other.port()+`,"extensionServerCsrfToken":"extension-token"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	r.says("received OAuth token info")
	await.Until(t, "the ports", func() bool { return len(other.seen("LanguageServerStarted")) == 1 })
}

func TestMissingExtensionTokenIsRefused(t *testing.T) {
	t.Parallel()
	r := startProcess(t, start{stdin: metadata(t), args: []string{"--extension_server_port", "1"}})
	if code := r.ends(); code != 1 || !strings.Contains(r.text(), "extension_server_csrf_token is required") {
		t.Errorf("exit code %d: %s", code, r.text())
	}
	e := newExtensionRig(t, "t")
	args := e.flags("")
	for i := range args {
		args[i] = strings.Replace(args[i], "extension-token", "wrong", 1)
	}
	r = startProcess(t, start{stdin: metadata(t), args: args})
	r.says("LanguageServerStarted failed: .*403|LanguageServerStarted failed: permission_denied")
	if status, body := r.post("Heartbeat", "{}"); status != 200 { // it goes on
		t.Errorf("%d %s", status, body)
	}
}
