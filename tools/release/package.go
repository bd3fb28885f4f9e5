package release

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A Package is one for dpkg or rpm.
type Package struct {
	Format     string // "deb" or "rpm"
	Arch       string // as Go names it
	Version    string
	Homepage   string
	Maintainer string
	Modified   time.Time // of all files
	Files      []PackageFile
	Scripts    map[string][]byte // postinstall, preremove, postremove
}

// A PackageFile is a file that a package installs. It belongs to root.
type PackageFile struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
	Config  bool // an upgrade keeps it if it was edited
}

// A packager writes a package and returns the name of its file.
type packager = func(Package) (name string, content []byte, err error)

// noMaintainer is the address in packages if none was given. It does not resolve.
const noMaintainer = "perigee <maintainer@no-maintainer.invalid>"

// packages writes the packages for a platform, with the files of its archive.
func (r *release) packages(p Platform, files []file) error {
	if p.OS != "linux" || r.Pack == nil {
		return nil
	}
	for _, format := range []string{"deb", "rpm"} {
		pack, err := r.describe(p, format, files)
		if err != nil {
			return err
		}
		name, content, err := r.Pack(pack)
		if err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		if err := r.add(name, content); err != nil {
			return err
		}
		r.list(p, format, name)
	}
	return nil
}

// describe returns a package in one format.
func (r *release) describe(p Platform, format string, files []file) (Package, error) {
	pack := Package{Format: format, Arch: p.Arch, Version: r.Version, Maintainer: r.Maintainer, Modified: r.time, Scripts: map[string][]byte{}}
	pack.Homepage, _, _ = strings.Cut(strings.TrimSuffix(r.BaseURL, "/"), "/releases/")
	if pack.Maintainer == "" {
		pack.Maintainer = noMaintainer
	}
	dist := filepath.Join(r.Source, "dist")
	for _, name := range []string{"postinstall", "preremove", "postremove"} {
		script, err := os.ReadFile(filepath.Join(dist, "packages", name+".sh"))
		if err != nil {
			return pack, err
		}
		pack.Scripts[name] = script
	}
	config, err := os.ReadFile(filepath.Join(dist, "config.yaml"))
	if err != nil {
		return pack, err
	}
	pack.Files = append(pack.Files, PackageFile{Path: "/etc/perigee/config.yaml", Content: config, Mode: 0o644, Config: true})
	for _, f := range files {
		installed, err := r.install(f, pack)
		if err != nil {
			return pack, err
		}
		pack.Files = append(pack.Files, installed...)
	}
	packed := make(map[string]bool)
	for _, f := range pack.Files {
		addPath(packed, f.Path)
	}
	for i, f := range pack.Files {
		pack.Files[i].Content = unlink(f.Path, f.Content, packed)
	}
	if format == "deb" {
		extra, err := r.debian(pack.Maintainer)
		pack.Files = append(pack.Files, extra...)
		return pack, err
	}
	return pack, nil
}

// places are the directories and names of files of an archive in packages, by their directory and
// name in the archive.
var places = map[string]map[string]string{
	"deb": {"_perigee": "/usr/share/zsh/vendor-completions/_perigee", "NOTICE": "/usr/share/doc/perigee/NOTICE", "LICENSE": ""},
	"rpm": {"_perigee": "/usr/share/zsh/site-functions/_perigee", "NOTICE": "/usr/share/licenses/perigee/NOTICE",
		"LICENSE": "/usr/share/licenses/perigee/LICENSE"},
	"": {
		"perigee": "/usr/bin/perigee", "README.md": "/usr/share/doc/perigee/README.md", "CHANGELOG.md": "/usr/share/doc/perigee/changelog.gz",
		"SECURITY.md":  "/usr/share/doc/perigee/SECURITY.md",
		"perigee.bash": "/usr/share/bash-completion/completions/perigee", "perigee.fish": "/usr/share/fish/vendor_completions.d/perigee.fish",
		"perigee.ps1": "", "perigee.sysusers": "/usr/lib/sysusers.d/perigee.conf",
	},
}

// installedProgram is the path of the program in units of dist, which people install by hand.
var installedProgram = regexp.MustCompile(`(?m)^ExecStart=\S+/bin/perigee `)

// install returns what a package has of a file of the archive.
func (r *release) install(f file, pack Package) ([]PackageFile, error) {
	name, content := path.Base(f.name), f.content
	to, ok := places[pack.Format][name]
	if !ok {
		to, ok = places[""][name]
	}
	switch dir := path.Dir(f.name); {
	case ok && to == "":
		return nil, nil
	case ok:
	case dir == "docs":
		to = "/usr/share/doc/perigee/" + f.name
	case dir == "man":
		to = "/usr/share/man/man1/" + name + ".gz"
	case strings.HasPrefix(dir, "systemd"):
		to = "/usr/lib/systemd/" + map[string]string{"systemd": "system/", "systemd/user": "user/"}[dir] + name
		if strings.HasSuffix(name, ".service") {
			if !installedProgram.Match(content) {
				return nil, fmt.Errorf("dist has a unit %s that does not start perigee", f.name)
			}
			content = installedProgram.ReplaceAll(content, []byte("ExecStart=/usr/bin/perigee "))
		}
	default:
		return nil, fmt.Errorf("no place is known for %s in a package: add it to the table in package.go", f.name)
	}
	if strings.HasSuffix(to, ".gz") {
		content = compress(content)
	}
	return []PackageFile{{Path: to, Content: content, Mode: f.mode()}}, nil
}

// debian returns the files that only packages of Debian have.
func (r *release) debian(maintainer string) ([]PackageFile, error) {
	doc := "/usr/share/doc/perigee/"
	copyright := fmt.Sprintf("Copyright (C) %d the authors of perigee\n\n", r.time.Year()) + "perigee is licensed under the Apache License, Version 2.0; /usr/share/common-licenses/Apache-2.0 has its text.\n" +
		"The licenses and copyrights of the parts that it contains are in " + doc + "NOTICE.\n"
	log := fmt.Sprintf("perigee (%s-1) stable; urgency=medium\n\n  * %schangelog.gz lists the changes.\n\n -- %s  %s\n",
		strings.Replace(r.Version, "-", "~", 1), doc, maintainer, r.time.Format(time.RFC1123Z))
	// A program of Go has no other form. The scripts are those of the rpm package, too, and look for
	// systemctl first.
	overrides := "perigee: statically-linked-binary *\nperigee: maintainer-script-calls-systemctl *\n" +
		"perigee: initial-upload-closes-no-bugs *\n"
	return []PackageFile{
		{Path: doc + "copyright", Content: []byte(copyright), Mode: 0o644},
		{Path: doc + "changelog.Debian.gz", Content: compress([]byte(log)), Mode: 0o644},
		{Path: "/usr/share/lintian/overrides/perigee", Content: []byte(overrides), Mode: 0o644},
	}, nil
}

// compress returns what gzip -n -9 makes.
func compress(content []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, _ = w.Write(content)                                 // writes into memory do not fail
	_ = w.Close()
	return out.Bytes()
}
