package daemon

import (
	"log/slog"
	"strings"

	"perigee"
	"perigee/internal/config"
)

// follow watches the configuration until the daemon stops.
func (d *Daemon) follow() {
	if d.opts.Poll == 0 {
		return
	}
	d.background.Go(func() {
		config.Watch(d.base, d.opts.Sources, d.opts.Loaded, d.opts.Poll, d.apply, func(err error) {
			d.opts.Logger.Error("invalid configuration, keeping the previous one", "error", err)
			d.auditRefusedReload(d.loaded.Load().Path)
		})
	})
}

// apply puts a changed configuration in force: at once where that is possible, and otherwise it says that a
// restart is needed.
func (d *Daemon) apply(loaded *config.Loaded) {
	if d.opts.Reloading != nil {
		defer d.opts.Reloading()()
	}
	cfg, first := loaded.Config, d.opts.Loaded.Config
	if section := d.loaded.Load().Config.Emptied(cfg); section != "" {
		d.opts.Logger.Error("the new configuration removes all "+section+", which needs a restart; keeping the previous one", "file", loaded.Path)
		d.auditRefusedReload(loaded.Path)
		return
	}
	if err := d.house.rebuild(d.base, cfg); err != nil {
		d.opts.Logger.Error("the new configuration cannot be used, keeping the previous one", "error", err)
		d.auditRefusedReload(loaded.Path)
		return
	}
	next := d.settings(cfg)
	next.Loopback = d.loopback(first.Listen) // the listener stays where it is
	next.MaxHead = int(first.Limits.Head)    // as net/http reads it
	d.api.Apply(next)
	if cfg.Limits.Head != first.Limits.Head {
		d.opts.Logger.Warn("a change to limits.head needs a restart")
	}
	d.memory.Resize(memorySize(cfg))
	limitRuntime(d.memory.Size())
	d.connections.apply(cfg.Limits.Connections, d.memory.Size())
	restart := d.applyCertificate(loaded)
	before := d.loaded.Swap(loaded)
	d.redactor.Store(perigee.NewRedactor(cfg.Secrets()...))
	d.keepCalls.Store(int64(cfg.Retention.Calls))
	d.store.LimitResponses(int64(cfg.Store.Responses))
	SetLevel(d.opts.LogLevel, cfg.Log)
	for _, w := range loaded.Warnings {
		d.opts.Logger.Warn(w)
	}
	changed := strings.Join(config.Changed(before.Config, cfg), ", ")
	d.opts.Logger.Info("configuration reloaded", "file", loaded.Path, "keys", len(cfg.Keys), "upstreams", len(cfg.Upstreams),
		"actor", perigee.ActorFile, "changed", changed)
	d.auditReload(loaded.Path, changed)
	if d.Simulated() {
		d.opts.Logger.Warn("no upstream is configured: answering from the built-in simulator", "file", loaded.Path)
	}
	if restart || cfg.Listen != first.Listen || cfg.DataDir != first.DataDir || storeChanged(cfg.Store, first.Store) || cfg.LogFormat != first.LogFormat {
		d.opts.Logger.Warn("changes to listen, data_dir, store.url, store.seal_key and log_format, and adding or removing tls, need a restart")
	}
}

// storeChanged says whether another store is wanted. Its limits change while it is open.
func storeChanged(now, first config.Store) bool {
	return now.URL != first.URL || now.SealKey != first.SealKey
}

// SetLevel makes a log level of the configuration's word for it.
func SetLevel(v *slog.LevelVar, word string) {
	if v == nil {
		return
	}
	var level slog.Level
	if level.UnmarshalText([]byte(word)) == nil {
		v.Set(level)
	}
}
