// Command release builds the files of a release. It is run by "make release VERSION=0.1.0".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"perigee/tools/release"
	"perigee/tools/release/packages"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o := release.Options{Log: os.Stdout, Pack: packages.Pack}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	dir := flags.String("C", ".", "`directory` to which paths are relative")
	flags.StringVar(&o.Source, "source", ".", "`directory` of the checkout")
	flags.StringVar(&o.Out, "out", "", "`directory` for the files of the release")
	flags.StringVar(&o.Version, "version", "", "`version`, such as 0.1.0")
	platforms := flags.String("platforms", "", "`names` such as linux/amd64,darwin/arm64; empty for all")
	flags.StringVar(&o.Key, "key", "", "`file` of an SSH key that signs the checksums")
	flags.StringVar(&o.BaseURL, "base-url", "", "https `address` of the directory where the files will be")
	flags.StringVar(&o.Notes, "notes", "", "https `address` of the release notes")
	flags.StringVar(&o.Maintainer, "maintainer", "", "`name` and address for packages: Ada <ada@example.com>")
	flags.StringVar(&o.Index, "index", "", "`file` with the index of the earlier releases")
	flags.StringVar(&o.Program, "program", "", "`file` of the program for this machine; it is compiled if none is given")
	flags.BoolVar(&o.Snapshot, "snapshot", false, "accept changes that are not committed, and a tag at another commit")
	flags.BoolVar(&o.Unprofiled, "unprofiled", false, "compile without the profile, for tests; only with -snapshot")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.Out == "" {
		return errors.New("usage: release -version VERSION -out DIR [-C DIR] [-source DIR] [-platforms NAMES] [-key FILE] [-base-url URL] [-notes URL] [-index FILE] [-maintainer NAME] [-snapshot [-unprofiled] [-program FILE]]")
	}
	err := os.Chdir(*dir)
	if err != nil {
		return err
	}
	if o.Platforms, err = release.ParsePlatforms(*platforms); err != nil {
		return err
	}
	return release.Build(ctx, o)
}
