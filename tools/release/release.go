// Package release builds the files of a release: archives, packages, lists of licenses and of
// parts, checksums. Their bytes depend on the commit, the version, the Go version and the options
// alone: not on the machine, its user, its clock or its settings.
package release

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// Options say which release is built, and where its files are written.
type Options struct {
	Source     string     // root of the checkout
	Out        string     // directory for the files; an earlier release in it is replaced
	Version    string     // a semantic version without "v"
	Platforms  []Platform // empty for all
	Key        string     // file of the SSH key that signs; empty for no signature
	BaseURL    string     // https address of the directory where the files will be, for index and templates
	Notes      string     // https address of the release notes, or empty
	Maintainer string     // "NAME <ADDRESS>" for packages
	Pack       packager   // writes packages; nil for none
	Index      string     // file with the index of earlier releases, or empty
	Unprofiled bool       // compile without default.pgo, which is faster; only with Snapshot
	Program    string     // of a snapshot: the program for this machine, instead of compiling it; empty to compile
	Snapshot   bool       // accept changes that are not committed, and a tag at another commit
	Log        io.Writer  // what has been written
}

// A Platform is a system that perigee is built for.
type Platform struct{ OS, Arch string }

// All are the platforms of a release.
var All = []Platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "arm"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// ParsePlatforms reads names such as "linux/amd64", separated by commas or spaces.
func ParsePlatforms(names string) ([]Platform, error) {
	var platforms []Platform
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }) {
		system, arch, _ := strings.Cut(name, "/")
		p := Platform{system, arch}
		if !slices.Contains(All, p) {
			return nil, fmt.Errorf("%q is not a platform of a release: choose from %s", name, join(All))
		}
		if !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	return platforms, nil
}

func join(platforms []Platform) string {
	var names []string
	for _, p := range platforms {
		names = append(names, p.OS+"/"+p.Arch)
	}
	return strings.Join(names, ", ")
}

// String returns the name of the platform in names of files.
func (p Platform) String() string {
	if p.Arch == "arm" {
		return p.OS + "_armv6"
	}
	return p.OS + "_" + p.Arch
}

// exe returns the name of a program on the platform.
func (p Platform) exe(name string) string {
	if p.OS == "windows" {
		return name + ".exe"
	}
	return name
}

//go:embed toolchain.txt
var toolchainFile string

// Toolchain is the Go version that compiles and packs releases. Another one makes other bytes.
var Toolchain = strings.TrimSpace(toolchainFile)

// A release is one run of Build.
type release struct {
	Options
	source
	compiler *compiler
	out      *output
	shared   []file   // completions and manual pages
	files    []listed // for the index
	images   []file   // for containers
}

// Build writes the files of a release. After an error, Out is as it was.
func Build(ctx context.Context, o Options) error {
	if runtime.Version() != Toolchain {
		return fmt.Errorf("releases are made with %s, and this is %s, which would make other bytes: run it with GOTOOLCHAIN=%s",
			Toolchain, runtime.Version(), Toolchain)
	}
	if len(o.Platforms) == 0 {
		o.Platforms = All
	}
	if err := errors.Join(checkKey(o.Key), checkURL("BASE_URL", o.BaseURL), checkURL("NOTES", o.Notes)); err != nil {
		return err
	}
	if strings.ContainsFunc(o.Maintainer, unicode.IsControl) {
		return fmt.Errorf("MAINTAINER is %q, with a line break or another control character: write NAME <ADDRESS>", o.Maintainer)
	}
	if o.Unprofiled && !o.Snapshot {
		return errors.New("a release is compiled with the profile: leave out PGO=off, or try it with SNAPSHOT=1")
	}
	from, err := inspect(ctx, o)
	if err != nil {
		return err
	}
	if !o.Snapshot {
		tree, err := os.MkdirTemp("", "perigee-source-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(tree) }()
		if err := from.export(ctx, o.Source, tree); err != nil {
			return err
		}
		o.Source = tree
	}
	r := &release{Options: o, source: from}
	if r.compiler, err = newCompiler(ctx, o.Source); err != nil {
		return err
	}
	defer r.compiler.close()
	r.compiler.unprofiled = o.Unprofiled
	if o.Program != "" {
		if !o.Snapshot {
			return errors.New("the program of a release is compiled: -program needs -snapshot")
		}
		r.compiler.built[Platform{runtime.GOOS, runtime.GOARCH}] = o.Program
	}
	if r.out, err = newOutput(o.Out); err != nil {
		return err
	}
	defer r.out.close()
	if err := r.write(ctx); err != nil {
		return err
	}
	if err := r.out.commit(); err != nil {
		return err
	}
	last := sums + " is signed: " + sums + ".sig"
	if r.Key == "" {
		last = sums + " is NOT SIGNED: give an SSH key with KEY=FILE"
	}
	_, err = fmt.Fprintln(r.Log, last)
	return err
}

func (r *release) write(ctx context.Context) error {
	host, err := r.compiler.build(ctx, Platform{runtime.GOOS, runtime.GOARCH}, r.Version)
	if err != nil {
		return err
	}
	if r.shared, err = r.generate(ctx, host); err != nil {
		return err
	}
	for _, p := range r.Platforms {
		binary, err := r.compiler.build(ctx, p, r.Version)
		if err != nil {
			return err
		}
		if err := r.platform(ctx, p, binary); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := errors.Join(r.container(), r.index(), r.templates(), r.out.writeSums()); err != nil || r.Key == "" {
		return err
	}
	return r.out.sign(ctx, r.Key)
}

// platform writes the files for one platform. The program has been compiled to the path binary.
func (r *release) platform(ctx context.Context, p Platform, binary string) error {
	modules, err := r.compiler.modules(ctx, p)
	if err != nil {
		return err
	}
	files, err := r.contents(p, binary, modules)
	if err != nil {
		return err
	}
	r.collect(p, files)
	if err := errors.Join(r.archive(p, files), r.packages(p, files)); err != nil {
		return err
	}
	parts, err := sbom(r.Version, binary, modules)
	if err != nil {
		return err
	}
	return r.add(r.dir(p.String())+".cdx.json", parts)
}

// archive writes the archive for a platform. All its files are in one directory.
func (r *release) archive(p Platform, files []file) error {
	dir := r.dir(p.String())
	var content []byte
	var err error
	name := dir + ".tar.gz"
	if p.OS == "windows" {
		name = dir + ".zip"
		content, err = zipped(dir, files, r.time)
	} else {
		content, err = tarred(dir, files, r.time)
	}
	if err != nil {
		return err
	}
	if err := r.add(name, content); err != nil {
		return err
	}
	r.list(p, "archive", name)
	return nil
}

// add writes one file of the release.
func (r *release) add(name string, content []byte) error {
	if err := r.out.write(name, content); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.Log, "%s (%.1f MB)\n", filepath.Join(r.Out, name), float64(len(content))/1e6)
	return err
}

var errNotClean = errors.New("the checkout has changes that are not committed")
