package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/terminal"
)

// A release is an entry of an index, which perigee's releases come with.
type release struct {
	Version  string        `json:"version"`
	Date     string        `json:"date"`
	URL      string        `json:"url"` // of the directory with the files
	Notes    string        `json:"notes"`
	Security bool          `json:"security"` // it fixes a vulnerability
	Files    []releaseFile `json:"files"`
}

type releaseFile struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kind   string `json:"kind"` // archive, deb or rpm
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// An upgradeReport is the result of perigee upgrade --check.
type upgradeReport struct {
	Version     string    `json:"version"` // of this program
	Development bool      `json:"development"`
	Latest      string    `json:"latest"`
	Newer       []release `json:"newer"`    // newest first
	Security    bool      `json:"security"` // one of them fixes a vulnerability
	InstalledBy string    `json:"installed_by"`
	Command     string    `json:"command,omitempty"` // that upgrades
	File        string    `json:"file,omitempty"`    // to download
	SHA256      string    `json:"sha256,omitempty"`
}

// upgrade compares this program with an index of releases. It replaces nothing.
func upgrade(ctx context.Context, env *cli.Env, args []string) error {
	check := env.Flags.Bool("check", false, "")
	index := env.Flags.String("index", "", "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	switch {
	case !*check:
		return cli.Usagef("upgrade: perigee does not replace itself; use perigee upgrade --check --index URL to see whether there is a newer release")
	case *index == "":
		return cli.Usagef("upgrade: perigee makes no connection on its own, and no index is known; name the index.json of the releases with --index URL or --index FILE")
	}
	releases, err := readIndex(ctx, *index)
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	report := compareReleases(programVersion(), releases)
	installed := installation(ctx)
	report.InstalledBy = installed.manager
	if len(report.Newer) > 0 {
		report.choose(installed, report.Newer[0])
	}
	if env.JSON {
		return cli.WriteJSON(env, report)
	}
	report.print(env)
	return nil
}

// compareReleases returns which releases are newer than a version. All are newer than a development
// build. Pre-releases are only offered after a pre-release, or if there is nothing else.
func compareReleases(version string, releases []release) (report upgradeReport) {
	own, err := parseVersion(version)
	if len(own.before) == 0 || err != nil {
		releases = stable(releases)
	}
	report = upgradeReport{Version: version, Latest: releases[0].Version, Newer: []release{}}
	report.Development = err != nil || strings.HasPrefix(version, "v0.0.0-") || strings.Contains(version, "+dirty")
	for _, r := range releases {
		if v, err := parseVersion(r.Version); err == nil && (report.Development || own.less(v)) {
			report.Newer = append(report.Newer, r)
			report.Security = report.Security || r.Security
		}
	}
	return report
}

// stable returns the releases that are not pre-releases, or all if there are only those.
func stable(releases []release) []release {
	rest := slices.DeleteFunc(slices.Clone(releases), func(r release) bool {
		v, err := parseVersion(r.Version)
		return err == nil && len(v.before) > 0
	})
	if len(rest) == 0 {
		return releases
	}
	return rest
}

// choose sets how the latest release is installed.
func (r *upgradeReport) choose(installed installedBy, latest release) {
	r.Command = strings.ReplaceAll(installed.command, "VERSION", latest.Version)
	for _, f := range latest.Files {
		if f.OS == runtime.GOOS && f.Arch == runtime.GOARCH && f.Kind == installed.kind {
			r.File, r.SHA256 = f.Name, f.SHA256
			if latest.URL != "" {
				r.File = strings.TrimSuffix(latest.URL, "/") + "/" + f.Name
			}
			r.Command = strings.ReplaceAll(r.Command, "FILE", f.Name)
			return
		}
	}
	if installed.kind != "" {
		r.Command = "" // the release has no such file
	}
}

func (r *upgradeReport) print(env *cli.Env) {
	line := func(format string, args ...any) {
		fmt.Fprintln(env.Stdout, terminal.Printable(fmt.Sprintf(format, args...))) // it quotes an index
	}
	if r.Development {
		line("this is a development build (%s); the latest release is %s", r.Version, r.Latest)
	} else if len(r.Newer) == 0 {
		line("perigee %s is up to date", r.Version)
		return
	} else {
		line("perigee %s is installed; newer releases:", r.Version)
		for _, n := range r.Newer {
			security := ""
			if n.Security {
				security = "  security fix"
			}
			line("  %s  %s%s  %s", n.Version, n.Date, security, n.Notes)
		}
	}
	line("installed by: %s", r.InstalledBy)
	if r.File != "" {
		line("download: %s", r.File)
		line("SHA-256: %s", r.SHA256)
	}
	if r.Command != "" {
		line("upgrade: %s", r.Command)
	}
	if r.Command == "" && r.File == "" {
		line("the release has no file for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
}

// decodeIndex reads an index of releases, the newest first.
func decodeIndex(raw []byte) ([]release, error) {
	var index struct {
		Schema   int       `json:"schema"`
		Releases []release `json:"releases"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = fmt.Errorf("%s is a JSON %s", cmp.Or(wrong.Field, "the whole"), wrong.Value)
		}
		return nil, fmt.Errorf("it is not an index of releases: %w", err)
	}
	if index.Schema == 0 {
		return nil, fmt.Errorf("it is not an index of releases: it has no schema")
	}
	if index.Schema != 1 {
		return nil, fmt.Errorf("it has the schema %d, and this version reads 1; a newer perigee may read it", index.Schema)
	}
	if len(index.Releases) == 0 {
		return nil, fmt.Errorf("it has no releases")
	}
	for i, r := range index.Releases {
		v, err := parseVersion(r.Version)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return nil, err
		}
		if i > 0 {
			if before, _ := parseVersion(index.Releases[i-1].Version); !v.less(before) { // it was parsed in the last round
				return nil, fmt.Errorf("its releases are not in order: %s comes after %s", r.Version, index.Releases[i-1].Version)
			}
		}
	}
	return index.Releases, nil
}

var (
	releaseDate    = lazyregexp.New(`^(\d{4}-\d{2}-\d{2})?$`)
	releaseAddress = lazyregexp.New(`^(https://[0-9A-Za-z._~:/?#@%+,=-]{1,1000})?$`)
	releaseName    = lazyregexp.New(`^[0-9A-Za-z][0-9A-Za-z._~+-]{0,200}$`)
	releaseSum     = lazyregexp.New(`^([0-9a-f]{64})?$`)
)

// check returns an error for what a person would not recognize, or could run, after copying it from
// the output: a name such as --eval=… would be an option of the package manager.
func (r release) check() error {
	switch {
	case !releaseDate().MatchString(r.Date):
		return fmt.Errorf("%s has the date %.40q, want one such as 2026-01-31", r.Version, r.Date)
	case !releaseAddress().MatchString(r.URL):
		return fmt.Errorf("%s has the address %.100q, want https", r.Version, r.URL)
	case !releaseAddress().MatchString(r.Notes):
		return fmt.Errorf("%s has release notes at %.100q, want https", r.Version, r.Notes)
	}
	for _, f := range r.Files {
		if !releaseName().MatchString(f.Name) || !releaseSum().MatchString(f.SHA256) {
			return fmt.Errorf("%s has a file %.100q with the SHA-256 %.70q", r.Version, f.Name, f.SHA256)
		}
	}
	return nil
}
