// Package store is the room of everything that perigee keeps on disk. It is independent of what
// uses it: account, route, upstream, mcp, observe, daemon and cli may import it. Begin with
// config/config.go, where every setting is documented, and sqlstore/store.go.
//
//	audit            records administrative actions, one log line and one row each
//	batchwriter      queues rows and writes them in the background, many at a time
//	config           the configuration: one struct with the manual in its comments; sources, validation, reload
//	datadir          names and permissions of the files in data_dir, its lock, the socket, the admin token
//	sqlstore         calls, usage, stored responses, thought signatures and accounts, on SQLite or PostgreSQL
//	sqlstore/engine  opens the database, migrates it and runs statements; one Driver per engine
//	vault            encrypts secrets at rest, with a key from the keyring or a file
package store
