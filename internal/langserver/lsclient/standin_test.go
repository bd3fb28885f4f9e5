package lsclient

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/perigeetest/await"
)

// TestMain is the stand-in of a language server where it is started as "simulate langserver".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(standin.Main(ctx, standin.Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}))
	}
	goleak.VerifyTestMain(m)
}

var announced = regexp.MustCompile(`port at (\d+) for (HTTPS?)\b`)

// startStandIn starts the stand-in with the simulator as its cloud, and returns where it listens
// and how it is killed.
func startStandIn(t *testing.T, home string) (Endpoint, func()) {
	t.Helper()
	sim, err := simulator.New(simulator.Options{AnyToken: true})
	if err != nil {
		t.Fatal(err)
	}
	cloud := httptest.NewServer(sim)
	t.Cleanup(cloud.Close)
	if err := os.MkdirAll(filepath.Join(home, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	account := fmt.Sprintf(`{"token":{"access_token":"ya29.test","token_type":"Bearer","expiry":%q}}`, time.Now().Add(time.Hour).Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(home, ".gemini", "jetski-standalone-oauth-token"), []byte(account), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "simulate", "langserver", "--standalone", "--csrf_token", token, "--cloud_code_endpoint", cloud.URL)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), standin.Variable + "=generation=hub"}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	ports := make(chan Endpoint, 1)
	go func() {
		defer close(ended)
		endpoint := Endpoint{CSRF: perigee.NewSecret(token)}
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := announced.FindStringSubmatch(lines.Text()); m != nil {
				port, _ := strconv.Atoi(m[1])
				if m[2] == "HTTP" {
					endpoint.HTTP = port
				} else {
					endpoint.HTTPS = port
				}
				if endpoint.HTTP != 0 && endpoint.HTTPS != 0 {
					ports <- endpoint
				}
			}
		}
		_ = cmd.Wait()
	}()
	kill := func() { _ = cmd.Process.Kill(); await.Receive(t, ended, "the end of the stand-in") }
	t.Cleanup(kill)
	return await.Receive(t, ports, "the ports of the stand-in"), kill
}

// ready waits until the stand-in has learned its models.
func ready(t *testing.T, c *Client) []Model {
	t.Helper()
	await.Until(t, "the stand-in is ready", func() bool { return c.Ready(t.Context(), true) == nil })
	models, err := c.Models(t.Context())
	if err != nil || len(models) == 0 {
		t.Fatal(models, err)
	}
	return models
}

func TestAConversationWithTheStandIn(t *testing.T) {
	t.Parallel()
	both, kill := startStandIn(t, t.TempDir())
	for _, endpoint := range []Endpoint{{HTTP: both.HTTP, CSRF: both.CSRF}, {HTTPS: both.HTTPS, CSRF: both.CSRF}} {
		c := New(Options{Endpoint: Fixed(endpoint)})
		model := ""
		for _, m := range ready(t, c) {
			if m.ID == "gemini-3-flash" {
				model = m.Enum
			}
		}
		cascade, err := c.Start(t.Context(), StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Send(t.Context(), cascade, Message{Text: "[[text: Hello there.]]", Model: model}); err != nil {
			t.Fatal(err)
		}
		answer := answered(t, c, cascade)
		if answer != "Hello there." {
			t.Errorf("the answer is %q", answer)
		}
		trajectory, err := c.Trajectory(t.Context(), cascade)
		if err != nil || trajectory.Trajectory.GetTrajectoryId() == "" || trajectory.NumTotalSteps == 0 {
			t.Error(trajectory, err)
		}
		all, err := c.Conversations(t.Context())
		if err != nil || all[cascade] == nil {
			t.Error(all, err)
		}
		for what, err := range map[string]error{
			"cancel": c.Cancel(t.Context(), cascade), "workspace": c.AddTrackedWorkspace(t.Context(), t.TempDir()), "delete": c.Delete(t.Context(), cascade),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err = c.Trajectory(t.Context(), "unknown"); err == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("an unknown conversation: %v", err)
		}
	}

	// A killed process and the next one.
	kill()
	next, _ := startStandIn(t, t.TempDir())
	c, _ := clientOf(both, next)
	ready(t, c)
	if _, err := c.Start(t.Context(), StartOptions{}); err != nil {
		t.Error(err)
	}
	// The process may end before its answer has been sent.
	if err := c.Exit(t.Context()); err != nil && perigee.AsError(err).Class != perigee.ClassUnavailable {
		t.Error(err)
	}
}

// answered follows the updates until the turn has ended, and returns the text.
func answered(t *testing.T, c *Client, cascade string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		for _, err := range c.Updates(ctx, cascade) {
			if err != nil {
				t.Fatal(err)
			}
			steps, err := c.Steps(ctx, cascade, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range steps {
				if p := step.GetPlannerResponse(); p != nil && step.Status == 3 {
					return p.Response
				}
			}
		}
	}
}
