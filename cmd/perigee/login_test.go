package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"perigee/internal/testing/perigeetest/await"
)

// signin runs perigee login and does what a person would do with the page that it shows:
//
//	signin browser ARGS…   opens it, and lets the browser come back by itself
//	signin paste ARGS…     opens it in a browser elsewhere, and pastes first nonsense, then an invalid code, and then where that ended
//	signin code ARGS…      pastes the code alone
//	signin yes ARGS…       writes yes to the pipe before anything else, and pastes where the browser ended
//	signin nothing ARGS…   ends the input
//
// What login says is in stdout and stderr.
func signin(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: signin browser|paste|code|yes|nothing ARGS…")
	}
	path, err := exec.LookPath("perigee")
	ts.Check(err)
	cmd := exec.CommandContext(limited(ts), path, append([]string{"login"}, args[1:]...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PERIGEE_KEYRING", "PERIGEE_CONFIG", "PERIGEE_IDE", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Stdout = ts.Stdout()
	input, err := cmd.StdinPipe()
	ts.Check(err)
	output, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	if args[0] == "yes" {
		_, err = io.WriteString(input, "yes\n")
		ts.Check(err)
	}
	var said bytes.Buffer
	lines := bufio.NewScanner(io.TeeReader(output, &said))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://") {
			ts.Check(visit(args[0], lines.Text(), input))
			break
		}
	}
	for lines.Scan() {
	}
	err = await.Result(ts, cmd.Wait, "the end of perigee login")
	_, _ = ts.Stderr().Write(said.Bytes())
	if exit, ok := errors.AsType[*exec.ExitError](err); neg && ok {
		ts.Check(os.WriteFile(ts.MkAbs("exit"), []byte(exit.String()+"\n"), 0o600))
		return
	}
	ts.Check(err)
	if neg {
		ts.Fatalf("it signed in")
	}
}

// visit opens the page that login shows.
func visit(how, page string, input io.WriteCloser) error {
	client := &http.Client{}
	if how != "browser" {
		defer input.Close()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	if how == "nothing" {
		return nil
	}
	resp, err := client.Get(page)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	switch {
	case how == "browser":
		return nil
	case err != nil:
		return err
	case how == "code":
		_, err = io.WriteString(input, back.Query().Get("code")+"\n")
	case how == "yes":
		_, err = io.WriteString(input, back.String()+"\n")
	default:
		_, err = io.WriteString(input, "what is this?\n\na-code-of-nobody\n"+back.String()+"\n")
	}
	return err
}
