package connlimit

import "log/slog"

// spareDescriptors are for the database, the log, sockets and connections to providers that are
// kept.
const spareDescriptors = 64

// WarnOfDescriptors logs a warning if this process may have too few file descriptors for a number
// of connections, which is 0 if no limit is set.
func WarnOfDescriptors(logger *slog.Logger, connections int) {
	warnOf(logger, connections, descriptors())
}

func warnOf(logger *slog.Logger, connections int, available uint64) {
	wanted := uint64(connections) + spareDescriptors
	if available > 0 && available < wanted && connections > 0 {
		logger.Warn("too few file descriptors for limits.connections; raise ulimit -n or LimitNOFILE, or lower the limit",
			"descriptors", available, "connections", connections, "wanted", wanted)
	}
}
