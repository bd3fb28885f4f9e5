package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/mcp/bridge"
	"perigee/internal/observe/secrets"
	"perigee/internal/observe/trace"
	"perigee/internal/observe/trace/bundle"
	"perigee/internal/server/admin"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/vault"
)

// bundleCall packs the trace of a call for another person.
func bundleCall(ctx context.Context, env *cli.Env, args []string) error {
	out := env.Flags.String("out", "", "")
	id, err := oneCall(env, "bundle", args)
	if err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "perigee-bundle-")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	client, err := daemon.Reach(ctx, loaded.Config)
	switch {
	case err == nil:
		id, err = fetchBundle(ctx, client, id, file)
	case errors.Is(err, daemon.ErrNotRunning):
		id, err = makeBundle(ctx, env, id, file)
	}
	if err != nil {
		return refused(err, id)
	}
	return deliver(env, file, *out, id)
}

// fetchBundle gets a bundle from the daemon, and returns the whole ID of the call.
func fetchBundle(ctx context.Context, client *remote.Client, id string, to *os.File) (string, error) {
	resp, err := client.Open(ctx, http.MethodGet, bundle.Path+url.PathEscape(id))
	if err != nil {
		return id, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return id, remote.Refusal(resp)
	}
	if _, err := io.Copy(to, resp.Body); err != nil {
		return id, fmt.Errorf("the bundle was cut off: %w", err)
	}
	name := ""
	if _, err := fmt.Sscanf(resp.Header.Get("Content-Disposition"), "attachment; filename=%q", &name); err == nil {
		id = bundle.ID(name)
	}
	return id, nil
}

// makeBundle makes a bundle without a daemon.
func makeBundle(ctx context.Context, env *cli.Env, id string, to *os.File) (string, error) {
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return id, err
	}
	options := daemon.StoreOptions(loaded.Config)
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return id, err
	}
	defer func() { _ = store.Close() }()
	call, err := admin.FindCall(ctx, store, id)
	if err != nil {
		return id, err
	}
	t, err := trace.Open(tracesDir(loaded.Config), call.ID)
	if err == nil {
		opts := bundle.Options{Trace: t, Version: env.Program.Version, Now: time.Now()}
		opts.Secrets, opts.Accounts, err = stored(ctx, loaded.Config, store)
		if err == nil {
			err = bundle.Write(to, opts)
		}
	}
	recordReading(ctx, env, loaded, perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: call.ID, Detail: "bundle"}, err)
	return call.ID, err
}

// stored returns the secrets and the addresses of accounts that files have.
func stored(ctx context.Context, cfg *config.Config, store *sqlstore.Store) (list []secrets.Named, accounts []string, err error) {
	list = secrets.OfConfig(cfg)
	if token, err := datadir.NewAdminToken(cfg.DataDir).Read(); err == nil {
		list = append(list, secrets.All("admin token", token)...)
	}
	if dir, err := bridge.Dir(); err == nil {
		list = append(list, secrets.All("token of a window", bridge.Secrets(dir)...)...)
	}
	if len(command.WithAccounts(cfg)) == 0 {
		return list, nil, nil
	}
	key, err := vault.Open(ctx, vault.Options{Dir: cfg.DataDir, Given: cfg.Store.SealKey})
	if err != nil {
		return nil, nil, err
	}
	signIns, err := store.Accounts(key).SignIns(ctx, "")
	for _, s := range signIns {
		accounts = append(accounts, s.Email)
		list = append(list, secrets.All("refresh token of upstream "+s.Upstream, s.Refresh)...)
	}
	return list, accounts, err
}

// deliver writes a bundle to out, by default a file with the ID of the call in its name, and prints
// the path. "-" is stdout.
func deliver(env *cli.Env, file *os.File, out, id string) (err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if out == "-" {
		_, err = io.Copy(env.Stdout, file)
		return err
	}
	if out == "" {
		out = bundle.FileName(id)
	}
	to, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, file); err == nil {
		err = to.Close()
	} else {
		_ = to.Close()
	}
	if err != nil {
		_ = os.Remove(out)
		return err
	}
	if path, err := filepath.Abs(out); err == nil && env.JSON {
		return cli.WriteJSON(env, struct {
			ID   string `json:"id"`
			File string `json:"file"`
		}{id, path})
	}
	_, err = fmt.Fprintln(env.Stdout, out)
	return err
}
