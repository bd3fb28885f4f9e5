// Package command has the common parts of the commands of perigee: configuration, the running
// daemon, the store, usage errors.
package command

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
)

// DaemonOptions returns the options with which commands use package daemon. Its warnings are
// printed as messages.
func DaemonOptions(env *cli.Env, loaded *config.Loaded) daemon.Options {
	return daemon.Options{
		Loaded: loaded, Version: env.Program.Version,
		Logger: slog.New(terminal.NewSentenceHandler(func(sentence string) { env.Remark("%s", sentence) })),
	}
}

// Load reads the configuration. Secrets of keys that spare reports may be missing.
func Load(env *cli.Env, spare func(key string) bool) (*config.Loaded, error) {
	return config.Load(config.Sources{Path: env.Config, Spare: spare, AnswersOllama: AnswersOllama})
}

// NoSecrets is a spare function for commands that use no secret, so that they work in a shell
// that has none.
func NoSecrets(string) bool { return true }

// Connect returns a handle on the running daemon or, if none runs, on the store and the upstreams.
// Only the latter needs secrets, except those that spare reports.
func Connect(ctx context.Context, env *cli.Env, loaded *config.Loaded, spare func(key string) bool) (*daemon.Handle, error) {
	if !daemon.Running(ctx, loaded.Config) {
		var err error
		if loaded, err = Load(env, spare); err != nil {
			return nil, err
		}
	}
	return daemon.Connect(ctx, DaemonOptions(env, loaded))
}

// ExceptSignIn spares all secrets but the secrets of the OAuth client and of proxies.
func ExceptSignIn(key string) bool {
	return !strings.HasSuffix(key, ".oauth.client_secret") && !strings.HasSuffix(key, "proxy")
}

// ExceptUpstreams spares all secrets but the secrets of upstreams.
func ExceptUpstreams(key string) bool { return !strings.HasPrefix(key, "upstreams[") }

// A Recorded is a kind of recorded data: its path in the running daemon, which also has data that
// is not on disk yet, and the function that reads it from the store.
type Recorded[T any] struct {
	Path string
	Read func(*sqlstore.Store) (T, error)
	// What names the data in the message about a store that does not exist yet, such as "calls". It
	// is empty if there is no message.
	What string
}

// Get asks the running daemon or, if none runs, the store. A store that does not exist yet yields
// nothing.
func (r Recorded[T]) Get(ctx context.Context, env *cli.Env, cfg *config.Config) (found T, err error) {
	if found, err = daemon.Ask[T](ctx, cfg, r.Path); !errors.Is(err, daemon.ErrNotRunning) {
		return found, err
	}
	options := daemon.StoreOptions(cfg)
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		if r.What == "" {
			return found, nil
		}
		if other := FindElsewhere(ctx, cfg); other != nil {
			env.Remark("%s; export PERIGEE_DATA_DIR=%s to see what it has", other, terminal.ShellWord(other.Dir))
			return found, nil
		}
		if _, missing := os.Stat(cfg.DataDir); errors.Is(missing, fs.ErrNotExist) && cfg.Store.URL.IsZero() {
			env.Remark("the data directory %s does not exist", cfg.DataDir)
		}
		env.Remark("%s", strings.Replace(err.Error(), "no calls", "no "+r.What, 1))
		return found, nil
	}
	if err != nil {
		return found, err
	}
	defer store.Close()
	return r.Read(store)
}

// Address returns the base URL of perigee: where the daemon listens, or else where it is
// configured to.
func Address(cfg *config.Config, listens string) (string, error) {
	if listens == "" {
		scheme := "http://"
		if cfg.TLS.Cert != "" {
			scheme = "https://"
		}
		listens = scheme + cfg.Listen
	}
	u, err := url.Parse(listens)
	if err != nil || u.Host == "" {
		return "", perigee.Errorf(perigee.ClassInvalid,
			"perigee listens on %s, which clients cannot use", listens).
			WithHint("set listen in the configuration to an address such as 127.0.0.1:8741")
	}
	host, port := u.Hostname(), u.Port()
	if port == "0" {
		return "", perigee.Errorf(perigee.ClassUnavailable,
			"the port of perigee is not known: listen is %s, and no daemon is running", cfg.Listen).
			WithHint("start perigee serve first, or configure a port")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port), nil
}

// Usage returns the usage that a query selects. what is Recorded.What. If it is not empty and no
// daemon runs, many calls that are not in the daily sums are added to them first, so that the next
// command is quick. A database that cannot be written is only read.
func Usage(
	ctx context.Context, env *cli.Env, cfg *config.Config, q perigee.UsageQuery, what string,
) ([]perigee.UsageRow, error) {
	query := Parameters(map[string]string{"by": q.By, "each": q.Each,
		"since": Timestamp(q.Since), "until": Timestamp(q.Until)})
	return Recorded[[]perigee.UsageRow]{What: what, Path: "/v1/usage?" + query.Encode(),
		Read: func(store *sqlstore.Store) ([]perigee.UsageRow, error) {
			if many, err := store.ManyUncounted(ctx); err == nil && many && what != "" {
				_ = daemon.CountCalls(ctx, cfg) // usage is the same without it
			}
			return cfg.PriceBook().Reader(store).Usage(ctx, q)
		}}.Get(ctx, env, cfg)
}

// Misused turns an error of class invalid into a usage error, for commands that have no other input
// than the command line and the configuration.
func Misused(err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok && e.Class == perigee.ClassInvalid {
		return cli.Usagef("%s", err)
	}
	return err
}

// Parameters returns the parameters of a query to the daemon, without the empty ones.
func Parameters(values map[string]string) url.Values {
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// Timestamp returns a time as a parameter, empty for the zero time.
func Timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// StateText returns the state of an account inside a sentence.
func StateText(state string) string {
	if state == perigee.AccountVerification {
		return "to be verified"
	}
	return strings.ReplaceAll(state, "_", " ")
}
