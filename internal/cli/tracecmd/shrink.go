package tracecmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"perigee/internal/cli"
	"perigee/internal/daemon/remote"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace/replay"
)

// maxLine bounds a line of the daemon's, which has the whole request at the end.
const maxLine = 256 << 20

// shrinkCall makes the request of a failed call smaller.
func shrinkCall(ctx context.Context, env *cli.Env, args []string) error {
	out := env.Flags.String("out", "", "")
	id, err := oneCall(env, "shrink", args)
	if err != nil {
		return err
	}
	client, _, err := reach(ctx, env, "send requests to find what fails")
	if err != nil {
		return err
	}
	progress := env.Progress(ctx)
	defer progress.Close()
	progress.Step("shrinking the request")
	resp, err := client.Open(ctx, http.MethodPost, replay.ShrinkPath+url.PathEscape(id))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refused(remote.Refusal(resp), id)
	}
	result, err := readShrunk(resp, func(p *replay.Progress) {
		progress.Update("shrinking the request: %d calls, %s", p.Calls, terminal.Size(int64(p.Bytes)))
	})
	progress.Close()
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if err := writeShrunk(env, *out, result); err != nil {
		return err
	}
	end := ""
	switch {
	case result.Stopped != "":
		end = "; stopped: " + result.Stopped
	case !result.Whole:
		end = "; calls or time are used up, so it may not be the smallest"
	}
	env.Remark("%d calls: %d bytes became %d%s", result.Calls, result.Before, result.Bytes, end)
	return nil
}

// readShrunk reads the lines of the daemon until the result.
func readShrunk(resp *http.Response, progress func(*replay.Progress)) (*replay.Shrunk, error) {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var line replay.Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("the daemon's answer cannot be read, it may be of another version: %w", err)
		}
		switch {
		case line.Result != nil:
			return line.Result, nil
		case line.Progress != nil:
			progress(line.Progress)
		}
	}
	return nil, ended(lines.Err())
}

// writeShrunk writes the smallest request to Stdout, or to a file that only its owner can read.
func writeShrunk(env *cli.Env, file string, result *replay.Shrunk) error {
	switch {
	case file != "":
		return os.WriteFile(file, []byte(result.Request+"\n"), 0o600)
	case env.JSON:
		return cli.WriteJSON(env, result)
	}
	_, err := fmt.Fprintln(env.Stdout, result.Request)
	return err
}
