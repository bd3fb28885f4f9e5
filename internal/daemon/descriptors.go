package daemon

import "perigee/internal/config"

// warnDescriptors says at the start that limits.connections cannot be reached.
func (d *Daemon) warnDescriptors(cfg *config.Config, available uint64) {
	wanted := uint64(cfg.Limits.Connections) + spareDescriptors
	if available > 0 && available < wanted && cfg.Limits.Connections > 0 {
		d.opts.Logger.Warn("too few file descriptors for limits.connections; raise ulimit -n or LimitNOFILE, or lower the limit",
			"descriptors", available, "connections", cfg.Limits.Connections, "wanted", wanted)
	}
}
