package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
)

// recordProfile has the daemon record a profile, writes it to a new file in the current directory
// and prints the name of the file. After an error there is no file.
func recordProfile(ctx context.Context, env *cli.Env, duration time.Duration) error {
	if duration < daemon.MinProfile || duration > daemon.MaxProfile {
		return cli.Usagef("doctor: --profile takes a duration from %v to 5m, such as 10s", daemon.MinProfile)
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	client, err := daemon.Reach(ctx, loaded.Config)
	if errors.Is(err, daemon.ErrNotRunning) {
		err = command.NotRunning(ctx, loaded.Config, ", and only a daemon can be profiled; start it with perigee serve")
	}
	if err != nil {
		return err
	}
	file, err := createProfile(time.Now()) // first, so that nothing is recorded that cannot be written
	if err != nil {
		return fmt.Errorf("doctor: %w; change to a directory that you may write to", err)
	}
	progress := env.Progress(ctx)
	progress.Step("recording a profile for %v", duration)
	archive, err := fetchProfile(ctx, client, duration)
	progress.Close()
	if err == nil {
		if _, err = file.Write(archive); err != nil {
			err = fmt.Errorf("%w; change to a directory with free space", err)
		}
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(file.Name())
		if ctx.Err() != nil {
			return fmt.Errorf("doctor: %w", cli.ErrInterrupted)
		}
		return fmt.Errorf("doctor: no profile was written: %w", err)
	}
	return printProfile(env, file.Name())
}

// createProfile creates a file with the time in its name, and a number if there is one already.
func createProfile(now time.Time) (*os.File, error) {
	name := "perigee-profile-" + now.Format("20060102-150405")
	for n := 1; ; n++ {
		suffix := ""
		if n > 1 {
			suffix = fmt.Sprintf("-%d", n)
		}
		file, err := os.OpenFile(name+suffix+".tar.gz", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

func fetchProfile(ctx context.Context, client *remote.Client, duration time.Duration) ([]byte, error) {
	query := url.Values{"duration": {duration.String()}}
	resp, err := client.Open(ctx, http.MethodGet, daemon.ProfilePath+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, remote.Refusal(resp)
	}
	archive, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", daemon.ErrNoAnswer, err)
	}
	return archive, nil
}

func printProfile(env *cli.Env, name string) error {
	if env.JSON {
		path, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		return cli.WriteJSON(env, struct {
			File string `json:"file"`
		}{path})
	}
	env.Remark("the profile has names of functions and source files, and the path of the program; it has no prompts, answers or secrets")
	_, err := fmt.Fprintln(env.Stdout, name)
	return err
}
