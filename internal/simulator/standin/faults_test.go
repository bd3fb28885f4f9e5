package standin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	extensionserverpb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"

	"google.golang.org/protobuf/proto"
)

func TestCrashesAreCountedAcrossStarts(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	begin := func(settings string) *processRig {
		return startProcess(t, start{settings: settings, home: home, stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	}
	for range 2 {
		r := begin("fault=crash-at-start:2")
		if code := r.ends(); code != 2 || strings.Contains(r.text(), "listening") || !strings.Contains(r.text(), "panic: runtime error") {
			t.Errorf("exit code %d: %s", code, r.text())
		}
	}
	begin("fault=crash-at-start:2").plain()
	r := begin("fault=crash-after:10ms")
	if code := r.ends(); code != 2 {
		t.Errorf("crash-after: exit code %d", code)
	}
}

func TestCrashesInConversations(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"crash-on-send", "crash-mid-stream"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := newServerRig(t, "generation=hub fault="+fault+":1", simulator.Options{})
			id := r.call("StartCascade", `{}`)["cascadeId"].(string)
			request, err := http.NewRequest("POST", r.plain()+"/exa.language_server_pb.LanguageServerService/SendUserCascadeMessage", strings.NewReader(sendBody(id, "[[text: hi]]", flash)))
			check(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set(csrfHeader, testCSRF)
			if response, err := http.DefaultClient.Do(request); err == nil {
				response.Body.Close()
			} else if fault == "crash-mid-stream" {
				t.Errorf("sending failed: %v", err)
			}
			if code := r.ends(); code != 2 {
				t.Errorf("exit code %d", code)
			}
			if sent := len(r.cloud.generations("agent")); (sent == 1) != (fault == "crash-mid-stream") {
				t.Errorf("%d requests reached the cloud", sent)
			}
			r.start(t, r.home)
			if steps := r.finishes(r.say("[[text: hi]]"), 4); steps[2].text != "hi" {
				t.Errorf("after the restart: %s", kinds(steps))
			}
		})
	}
}

func TestStartsThatHangOrAreSlow(t *testing.T) {
	t.Parallel()
	args := []string{"--csrf_token", testCSRF}
	hanging := startProcess(t, start{settings: "fault=hang-at-start", stdin: metadata(t), args: args})
	hanging.says("Starting language server")
	slow := startProcess(t, start{settings: "fault=slow-start:300ms", stdin: metadata(t), args: args})
	if took, _ := strconv.Atoi(slow.says(`initialized server successfully in (\d+)ms`)[1]); took < 300 {
		t.Errorf("slow-start took %d ms", took)
	}
	if strings.Contains(hanging.text(), "listening") {
		t.Error("hang-at-start has ports")
	}
	check(t, hanging.cmd.Process.Signal(os.Interrupt))
	if code := hanging.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	never := startProcess(t, start{settings: "fault=never-ready", stdin: metadata(t), args: args})
	for _, method := range []string{"Heartbeat", "GetUserStatus"} {
		if status, body := never.post(method, "{}"); status != 503 {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
	if status, _ := never.post("GetAllCascadeTrajectories", "{}"); status != 200 {
		t.Errorf("other calls: %d", status)
	}
}

func TestCallsHang(t *testing.T) {
	t.Parallel()
	r := startProcess(t, start{settings: "fault=hang-on-call:StartCascade", stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", r.plain()+"/exa.language_server_pb.LanguageServerService/StartCascade", strings.NewReader("{}"))
	check(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(csrfHeader, testCSRF)
	answered := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(request)
		answered <- err
	}()
	r.says("hanging in StartCascade")
	if status, _ := r.post("Heartbeat", "{}"); status != 200 {
		t.Errorf("other calls: %d", status)
	}
	cancel()
	if err := await.Receive(t, answered, "the end of the call"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestFaultsTowardsTheExtensionServer(t *testing.T) {
	t.Parallel()
	e := newExtensionRig(t, "token")
	startProcess(t, start{settings: "fault=reconnect-storm:10ms,big-push:1,wrong-port", stdin: metadata(t), args: e.flags("")})
	await.Until(t, "five streams of each topic", func() bool { return len(e.seen("SubscribeToUnifiedStateSyncTopic")) > 5*len(subscribed) })
	await.Until(t, "a push", func() bool { return len(e.seen("PushUnifiedStateSyncUpdate")) > 0 })
	if size := len(e.seen("PushUnifiedStateSyncUpdate")[0].message); size < 1<<20 {
		t.Errorf("pushed %d bytes", size)
	}
	var started extensionserverpb.LanguageServerStartedRequest
	check(t, proto.Unmarshal(e.seen("LanguageServerStarted")[0].message, &started))
	if started.HttpPort != 1 {
		t.Errorf("reported %v", &started)
	}
}

func TestStreamsAreDroppedAndMemoryIsTaken(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "fault=drop-streams:2,eat-memory:80,big-stderr:2", simulator.Options{})
	if size := len(r.text()); size < 2<<20 {
		t.Errorf("%d bytes on standard error", size)
	}
	cascade, _ := r.call("StartCascade", `{"source":"CORTEX_TRAJECTORY_SOURCE_CASCADE_CLIENT"}`)["cascadeId"].(string)
	next := r.updates(t.Context(), cascade, "s") // before the message: after the turn there is only a snapshot
	r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: hi]]", flash))
	for range 2 {
		_, err := next()
		check(t, err)
	}
	if _, err := next(); err == nil || !strings.Contains(err.Error(), "ended: {}") {
		t.Errorf("after two frames: %v", err)
	}
	r.says("took 80 MiB of memory")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		return // not Linux
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	check(t, err)
	if kib < 80<<10 {
		t.Errorf("uses %d KiB", kib)
	}
}

func TestChildOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("there is no program sleep")
	}
	r := startProcess(t, start{settings: "fault=leave-child:60s", stdin: metadata(t), args: []string{"--csrf_token", testCSRF}})
	pid, err := strconv.Atoi(r.says(`started child (\d+)`)[1])
	check(t, err)
	child, err := os.FindProcess(pid)
	check(t, err)
	defer child.Kill()
	r.exit()
	if code := r.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	check(t, signalZero(child))
}
