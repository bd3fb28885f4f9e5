package truststore

import (
	"context"
	"crypto/x509"
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // NSS databases

	"perigee/internal/lib/lazyregexp"
)

// A database is an NSS database, in the directory of a browser profile. It is read as an SQLite
// file, because its tool finds certificates by nickname only, and changed with the tool.
type database struct {
	machine Machine
	dir     string
}

const nssFile = "cert9.db"

// databasePlaces are patterns for the directories of databases, below the home directory.
var databasePlaces = []string{
	".pki/nssdb",                             // Chromium, Chrome, Edge
	".local/share/pki/nssdb",                 // the same, in newer versions
	"snap/chromium/current/.pki/nssdb",       // and as a snap
	".mozilla/firefox/*",                     // Firefox
	".config/mozilla/firefox/*",              // the same, in newer versions
	"snap/firefox/common/.mozilla/firefox/*", // and as a snap
	".var/app/org.mozilla.firefox/.mozilla/firefox/*",
	"Library/Application Support/Firefox/Profiles/*",
	"AppData/Roaming/Mozilla/Firefox/Profiles/*",
}

// databases returns the directories with a database. Links to the same one count once.
func (m Machine) databases() (dirs []string) {
	if m.Home == "" {
		return nil
	}
	var seen []string
	for _, place := range databasePlaces {
		// the patterns are valid, and the home directory is not a pattern
		found, _ := fs.Glob(os.DirFS(m.Home), place+"/"+nssFile)
		for _, name := range found {
			file := filepath.Join(m.Home, filepath.FromSlash(name))
			if real, err := filepath.EvalSymlinks(file); err == nil && !slices.Contains(seen, real) {
				seen = append(seen, real)
				dirs = append(dirs, filepath.Dir(file))
			}
		}
	}
	return dirs
}

// ready checks for certutil. Windows has another program of that name.
func (d *database) ready() error {
	pack := "libnss3-tools (Debian, Ubuntu), nss-tools (Fedora), nss (Arch, Homebrew) or mozilla-nss-tools (openSUSE)"
	if d.machine.OS == "windows" {
		return fmt.Errorf("NSS databases cannot be changed on Windows; import the certificate in the settings of Firefox, " +
			"or set security.enterprise_roots.enabled there and use the store system")
	}
	if _, err := find("certutil"); err != nil {
		return fmt.Errorf("the NSS database %s needs the program certutil, which is missing; install the package %s", d.dir, pack)
	}
	return nil
}

// nickname returns the name that a certificate gets in a database.
func nickname(c *x509.Certificate) string { return "perigee " + ID(c) }

func (d *database) commands(c *x509.Certificate, file string) [][]string {
	if file != "" {
		return [][]string{{"certutil", "-A", "-d", "sql:" + d.dir, "-n", nickname(c), "-t", "C,,", "-i", file}}
	}
	name := nickname(c)
	if rows, err := d.rows(context.Background()); err == nil {
		for _, row := range rows {
			if row.certificate.Equal(c) && row.nickname != "" {
				name = row.nickname
			}
		}
	}
	return [][]string{{"certutil", "-D", "-d", "sql:" + d.dir, "-n", name}}
}

func (d *database) change(ctx context.Context, c *x509.Certificate, file string) error {
	if err := d.ready(); err != nil {
		return err
	}
	var err error
	if file != "" {
		_, err = d.machine.run(ctx, encode(c), "certutil", "-A", "-d", "sql:"+d.dir, "-n", nickname(c), "-t", "C,,", "-a")
	} else {
		err = d.remove(ctx, c)
	}
	if isExit(err) {
		return fmt.Errorf("%s: %w; if it has a primary password, run %s at a terminal, and then this command again, which checks the result",
			d.dir, err, shellLine(d.commands(c, file), false))
	}
	return err
}

func (d *database) remove(ctx context.Context, c *x509.Certificate) error {
	rows, err := d.rows(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if !row.certificate.Equal(c) {
			continue
		}
		// The tool removes by nickname, and must not remove another certificate.
		if row.nickname == "" || slices.ContainsFunc(rows, func(r nssRow) bool { return r.nickname == row.nickname && !r.certificate.Equal(c) }) {
			return fmt.Errorf("%s: other certificates have the nickname %q as well; remove the one with the fingerprint %s… in the settings of the browser",
				d.dir, row.nickname, ID(c))
		}
		if _, err := d.machine.run(ctx, nil, "certutil", "-D", "-d", "sql:"+d.dir, "-n", row.nickname); err != nil {
			return err
		}
	}
	return nil
}

// state returns Trusted only if certutil shows the trust to identify servers.
func (d *database) state(ctx context.Context, c *x509.Certificate) (State, error) {
	rows, err := d.rows(ctx)
	if err != nil {
		return Absent, err
	}
	i := slices.IndexFunc(rows, func(r nssRow) bool { return r.certificate.Equal(c) })
	if i < 0 {
		return Absent, nil
	}
	if d.ready() != nil {
		return Partial, nil
	}
	listed, err := d.machine.run(ctx, nil, "certutil", "-L", "-d", "sql:"+d.dir)
	if err != nil {
		return Partial, err
	}
	for line := range strings.Lines(listed) {
		if fields := listedLine().FindStringSubmatch(line); fields != nil && fields[1] == rows[i].nickname && strings.Contains(fields[2], "C") {
			return Trusted, nil
		}
	}
	return Partial, nil
}

// listedLine matches a nickname and its trust: to identify servers, for mail, for code.
var listedLine = lazyregexp.New(`^(.*?)\s+([A-Za-z]*),[A-Za-z]*,[A-Za-z]*\s*$`)

func (d *database) list(ctx context.Context) (all []*x509.Certificate, err error) {
	rows, err := d.rows(ctx)
	for _, row := range rows {
		all = append(all, row.certificate)
	}
	return all, err
}

type nssRow struct {
	nickname    string
	certificate *x509.Certificate
}

// rows returns the certificates of a database. NSS keeps PKCS #11 attributes in columns: a0 is
// CKA_CLASS (1 is a certificate), a3 CKA_LABEL, a11 CKA_VALUE.
func (d *database) rows(ctx context.Context) (rows []nssRow, err error) {
	where := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(filepath.Join(d.dir, nssFile)),
		RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", where.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	found, err := db.QueryContext(ctx, `SELECT CAST(coalesce(a3, '') AS TEXT), a11 FROM nssPublic WHERE a0 = x'00000001' AND a11 IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", nssFile, err)
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var row nssRow
		var der []byte
		if err := found.Scan(&row.nickname, &der); err != nil {
			return nil, err
		}
		// A certificate that Go cannot parse was not made by perigee.
		if row.certificate, err = x509.ParseCertificate(der); err == nil {
			rows = append(rows, row)
		}
	}
	return rows, found.Err()
}
