package cloud

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process of another user can neither call the cloud through the endpoint nor end the waiting of
// a call.
func TestEndpointForOneUser(t *testing.T) {
	if url := os.Getenv("PERIGEE_TEST_ENDPOINT"); url != "" {
		defer http.DefaultClient.CloseIdleConnections()
		res, err := http.Post(url+"/v1internal:streamGenerateContent", "application/x-protobuf", strings.NewReader("forged"))
		if err != nil {
			t.Fatal("refused: ", err)
		}
		_ = res.Body.Close()
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	called := make(chan struct{}, 2)
	cloud := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called <- struct{}{} }))
	defer cloud.Close()
	calls := NewCalls()
	handler, err := New(Options{Calls: calls, Cloud: cloud.URL})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := Listen(t.Context(), handler)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = endpoint.Close() }()
	run := func(user uint32) (string, error) {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env, cmd.Dir = append(os.Environ(), "PERIGEE_TEST_ENDPOINT="+endpoint.URL()), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waiting := calls.Expect(ctx, "cascade", Call{Request: []byte("{}")})
	out, err := run(65534)
	if err != nil && !strings.Contains(out, "refused: ") {
		t.Skipf("a process of another user cannot run here: %v %s", err, out)
	}
	if err == nil || len(called) != 0 {
		t.Errorf("another user was let in: %s", out)
	}
	waiting.Cancel()
	if _, err := answerOf(t, waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("the call of this user failed: %v", err)
	}
	if out, err := run(0); err != nil || len(called) != 1 {
		t.Errorf("this user was not let in: %v %s", err, out)
	}
}
