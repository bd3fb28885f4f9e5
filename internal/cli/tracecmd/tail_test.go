package tracecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/observe/live"
)

// The pieces of an answer continue its line. A piece of another answer, a tool and the end of a
// call begin a new one.
func TestAnswersGrowBesideEachOther(t *testing.T) {
	var out bytes.Buffer
	printer := tailer{env: &cli.Env{Stdout: &out, Stderr: &bytes.Buffer{}}, zone: time.UTC}
	row := perigee.TraceRow{ID: "a", Time: time.Date(2026, 11, 15, 14, 20, 4, 88e6, time.UTC), Dialect: "anthropic", ModelAsked: "m", Model: "n",
		ClientName: "claude-cli", Key: "laptop", Outcome: perigee.OutcomeOpen}
	ended := row
	ended.Outcome, ended.Class, ended.Status, ended.Upstream, ended.DurationMS = perigee.OutcomeFailed, perigee.ClassInvalid, 400, "studio", 1500
	for _, line := range []live.Line{
		{Event: live.Following}, {Event: "began", ID: "a", Call: &row}, {Event: "started", ID: "a", Call: &row},
		{Event: "thinking", ID: "a", Text: "hm"}, {Event: "text", ID: "a", Text: "one "}, {Event: "text", ID: "a", Text: "two\nthree\x1b[2J"},
		{Event: "text", ID: "b", Text: "other"}, {Event: "tool", ID: "a", Text: "read"}, {Event: "ended", ID: "a", Call: &ended, Error: "unknown name"},
	} {
		raw, err := json.Marshal(line)
		if err == nil {
			err = printer.print(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `14:20:04.088  a  began       anthropic  m  claude-cli  key laptop
  a | hm
  a | one two
  a | three?[2J
  b | other
  a | calls read
14:20:05.588  a  invalid     n  studio  400  1.5s  unknown name
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if err := printer.print([]byte(`{"event":"behind"}`)); err == nil {
		t.Error("a tail that cannot keep up is no error")
	}
	if err := printer.print([]byte("{")); err == nil {
		t.Error("a line that is no JSON is no error")
	}
}

// A daemon that ends counts as one that cannot be reached, for the exit code.
func TestDaemonThatEnds(t *testing.T) {
	if err := ended(nil); !errors.Is(err, daemon.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}

// Lines of a diff keep their tabs, and lose what would control the terminal.
func TestDiffsArePrintable(t *testing.T) {
	var out bytes.Buffer
	if err := printDiff(&cli.Env{Stdout: &out}, "--- a\n+++ b\n-\tone\x1b\n+two"); err != nil || out.String() != "--- a\n+++ b\n-\tone?\n+two" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
