package engine

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"perigee"
)

// advices are the hints for PostgreSQL's error codes, by their prefixes; the first that fits
// counts.
var advices = []struct{ code, hint string }{
	{"28", "check the user and the password in store.url, and pg_hba.conf on the server"},
	{"3D000", "make the database first, with createdb, or name another in store.url"},
	{"3F000", "make the schema first, or name another with ?search_path= in store.url"},
	{"42501", "let the role make and change tables there: GRANT CREATE, USAGE ON SCHEMA"},
	{"25006", "that server is a standby; add target_session_attrs=read-write to store.url"},
	{"53100", "free some space on the server's disk"},
	{"53300", "let the server take more connections (max_connections); a replica uses up to 16"},
	{"53", "the server is short of something; see its log"},
	{"57", "the server is ending or starting; try again"},
	{"08", "try again; see the server's log"},
	{"40", "try again"},
	{"55P03", "try again"},
}

// Advice classifies an error of the server, or of the way to it.
func (p *postgres) Advice(err error) (perigee.Class, string) {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, t := range advices {
			if strings.HasPrefix(refusal.Code, t.code) {
				return perigee.ClassUnavailable, t.hint
			}
		}
		return perigee.ClassInternal, ""
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return perigee.ClassUnavailable, "start PostgreSQL, or check the address in store.url"
	}
	if _, ok := errors.AsType[net.Error](err); ok || lostConnection(err) {
		return perigee.ClassUnavailable, "the connection was lost; it will be made again"
	}
	return perigee.ClassInternal, ""
}

// lostConnection recognizes the errors that only have a message.
func lostConnection(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		strings.Contains(err.Error(), "conn closed")
}
