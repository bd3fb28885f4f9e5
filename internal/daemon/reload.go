package daemon

import (
	"reflect"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/terminal"
	"perigee/internal/server/membudget"
	"perigee/internal/store/config"
)

// A pendingConfig describes a configuration file that is not in force entirely.
type pendingConfig struct {
	refused string   // why the whole change was refused, or ""
	pending []string // settings that need a restart
}

// refuse records why a change of the configuration file was refused.
func (d *Daemon) refuse(why, path string) {
	d.pendingConfig.Store(&pendingConfig{refused: why})
	d.auditRefusedReload(path)
}

// follow watches the configuration until the daemon stops.
func (d *Daemon) follow() {
	if d.opts.Poll == 0 {
		return
	}
	d.background.Go(func() {
		config.NewWatcher(d.opts.Sources, d.opts.Loaded, d.apply, func(err error) {
			first, _, _ := strings.Cut(err.Error(), "\n")
			d.refuse("it is invalid: "+d.redact(first), d.loaded.Load().Path)
			d.opts.Logger.Error("invalid configuration, keeping the previous one", "error", err)
		}).Run(d.base, d.opts.Poll)
	})
}

// apply puts a changed configuration in force, except for settings that need a restart: these do
// not change, for any part of the daemon, and apply logs that.
func (d *Daemon) apply(loaded *config.Loaded) {
	if d.opts.Reloading != nil {
		defer d.opts.Reloading()()
	}
	effective := *loaded
	effective.Config = d.inEffect(loaded.Config)
	cfg := effective.Config
	if section := d.loaded.Load().Config.Emptied(cfg); section != "" {
		d.refuse("it removes all "+section+", which needs a restart", loaded.Path)
		d.opts.Logger.Error("the new configuration removes all "+section+", which needs a restart; keeping the previous one",
			"file", loaded.Path)
		return
	}
	if err := d.gateway.Rebuild(d.base, cfg); err != nil {
		d.refuse(d.redact(err.Error()), loaded.Path)
		d.opts.Logger.Error("the new configuration cannot be used, keeping the previous one", "error", err)
		return
	}
	next := d.settings(cfg)
	d.prices.Become(cfg.PriceBook())
	d.api.Apply(next)
	d.memory.Resize(memorySize(cfg))
	membudget.LimitRuntime(d.memory.Size())
	d.clients.limiter.Apply(cfg.Limits.Connections, d.memory.Size())
	renewed := d.applyCertificate(loaded)
	before := d.loaded.Swap(&effective)
	d.mark(&effective)
	d.redactor.Store(redact.New(slices.Concat(cfg.Secrets(), loaded.Config.Secrets())...))
	d.store.LimitResponses(int64(cfg.Store.Responses))
	d.observers.Apply(cfg)
	terminal.SetLevel(d.opts.LogLevel, cfg.Log)
	restart := d.needRestart(loaded)
	d.pendingConfig.Store(&pendingConfig{pending: restart})
	for _, w := range loaded.Warnings {
		later := slices.Contains(restart, "listen") || slices.Contains(restart, "tls")
		// The warning is not true for the listener that is open.
		if !later || !strings.Contains(w.Message, config.Unencrypted) {
			d.opts.Logger.Warn(w.String())
		}
	}
	d.logReload(before, &effective, renewed, restart)
	if d.Simulated() {
		d.opts.Logger.Warn("no upstream is configured: answering from the built-in simulator", "file", loaded.Path)
	}
}

// logReload logs and records which changes are in effect, and which are not.
func (d *Daemon) logReload(before, loaded *config.Loaded, renewed bool, restart []string) {
	cfg := loaded.Config
	names := config.Changed(before.Config, cfg)
	isTLS := func(name string) bool { return strings.HasPrefix(name, "tls.") }
	if slices.Contains(restart, "tls") {
		names = slices.DeleteFunc(names, isTLS)
	} else if renewed && !slices.ContainsFunc(names, isTLS) {
		names = append(names, "tls")
	}
	changed, pending := strings.Join(names, ", "), strings.Join(restart, ", ")
	attrs := []any{"file", loaded.Path, "keys", len(cfg.Keys), "upstreams", len(cfg.Upstreams),
		"actor", perigee.ActorFile, "changed", changed}
	if renewed {
		attrs = append(attrs, "certificate_expires", loaded.Certificate.Leaf.NotAfter)
	}
	d.opts.Logger.Info("configuration reloaded", attrs...)
	d.auditReload(loaded.Path, changed, pending)
	if pending != "" {
		d.opts.Logger.Warn("changed settings need a restart and are not in effect", "settings", pending)
	}
}

// needRestart names the settings that are not in effect because they differ from those that the
// daemon was started with.
func (d *Daemon) needRestart(loaded *config.Loaded) (names []string) {
	now, first := loaded.Config, d.opts.Loaded.Config
	for _, setting := range []struct {
		name    string
		changed bool
	}{
		{"listen", now.Listen != first.Listen},
		{"tls", (loaded.Certificate == nil) != (d.certificate.Load() == nil)},
		{"data_dir", now.DataDir != first.DataDir},
		{"log_format", now.LogFormat != first.LogFormat},
		{"limits.head", now.Limits.Head != first.Limits.Head},
		{"interception", !reflect.DeepEqual(now.Interception, first.Interception)},
		{"store.url", now.Store.URL != first.Store.URL},
		{"store.seal_key", now.Store.SealKey != first.Store.SealKey},
	} {
		if setting.changed {
			names = append(names, setting.name)
		}
	}
	return names
}

// inEffect returns a configuration without its settings that need a restart, tls excepted.
func (d *Daemon) inEffect(cfg *config.Config) *config.Config {
	effective, first := *cfg, d.opts.Loaded.Config
	effective.Listen, effective.DataDir, effective.LogFormat = first.Listen, first.DataDir, first.LogFormat
	effective.Interception = first.Interception
	effective.Limits.Head, effective.Store.URL, effective.Store.SealKey = first.Limits.Head, first.Store.URL, first.Store.SealKey
	return &effective
}
