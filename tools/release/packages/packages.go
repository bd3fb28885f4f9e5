// Package packages writes packages for dpkg and rpm, with nfpm.
package packages

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"

	"perigee/tools/release"
)

// Pack writes a package. It returns the usual name of its file, and the bytes.
func Pack(p release.Package) (name string, content []byte, err error) {
	dir, err := os.MkdirTemp("", "perigee-package-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	info := &nfpm.Info{
		Name: "perigee", Arch: p.Arch, Platform: "linux", Version: p.Version, Release: "1", Section: "net", Priority: "optional",
		Maintainer: p.Maintainer, Homepage: p.Homepage, License: "Apache-2.0", MTime: p.Modified, DisableGlobbing: true,
		Description: "gateway between coding agents and the models you have access to\n" +
			"perigee is a local gateway: it speaks the OpenAI, Anthropic and Gemini APIs\n" +
			"and MCP to clients such as Claude Code, Codex and Gemini CLI, routes their\n" +
			"calls to the upstreams of your configuration, and records usage and cost.",
	}
	if p.Arch == "arm" {
		info.Arch = "arm6" // armhf of Debian, armv6hl of rpm
	}
	info.Recommends = []string{"ca-certificates"}
	info.RPM.BuildHost = "localhost"
	info.RPM.Summary = "Gateway between coding agents and the models you have access to"
	info.RPM.Compression = "gzip:9"
	for i, f := range p.Files {
		source := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(source, f.Content, 0o600); err != nil {
			return "", nil, err
		}
		kind := files.TypeFile
		if f.Config {
			kind = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, &files.Content{Source: source, Destination: f.Path, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.Mode, MTime: p.Modified}})
	}
	if p.Format == "rpm" { // dpkg knows the directories of its files, rpm those that a package names
		for _, owned := range []string{"/etc/perigee", "/usr/share/doc/perigee", "/usr/share/licenses/perigee"} {
			info.Contents = append(info.Contents, &files.Content{Destination: owned, Type: files.TypeDir,
				FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: p.Modified}})
		}
	}
	for name, to := range map[string]*string{
		"postinstall": &info.Scripts.PostInstall, "preremove": &info.Scripts.PreRemove, "postremove": &info.Scripts.PostRemove,
	} {
		*to = filepath.Join(dir, name)
		if err := os.WriteFile(*to, p.Scripts[name], 0o600); err != nil {
			return "", nil, err
		}
	}
	return write(p.Format, info)
}

func write(format string, info *nfpm.Info) (name string, content []byte, err error) {
	var packager nfpm.Packager
	switch format {
	case "deb":
		packager = deb.Default
	case "rpm":
		packager = rpm.DefaultRPM
	default:
		return "", nil, fmt.Errorf("%q is not a format of packages", format)
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", nil, err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return "", nil, err
	}
	return packager.ConventionalFileName(info), out.Bytes(), nil
}
