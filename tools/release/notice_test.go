package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func TestEveryModuleOfPerigeeHasALicense(t *testing.T) {
	c, err := newCompiler(t.Context(), filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	for p, own := range map[Platform]string{
		{"linux", "arm"}: "github.com/godbus/dbus/v5", {"darwin", "arm64"}: "modernc.org/libc", {"windows", "amd64"}: "github.com/danieljoos/wincred",
	} {
		modules, err := c.modules(t.Context(), p)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		line := strings.Repeat("=", 78)
		got := string(notice("0.1.0", modules)) + "\n" + line
		for _, want := range []string{own, "std " + strings.TrimPrefix(Toolchain, "go"), "modernc.org/sqlite", "SQLite Is Public Domain",
			"Copyright 2012-2015 The Prometheus Authors", "Copyright (c) 2006-2010 Kirill Simonov", "Copyright 2009 The Go Authors"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: NOTICE does not have %q", p, want)
			}
		}
		if len(modules) < 40 {
			t.Errorf("%s: found %d modules", p, len(modules))
		}
		for _, m := range modules {
			for _, text := range m.texts {
				named := strings.Contains(got, m.path+" "+m.version+": "+text.file+"\n")
				if m.license == "" || !named || strings.Count(got, line+"\n\n"+text.content+"\n\n"+line) != 1 {
					t.Errorf("%s: NOTICE does not have %s of %s once", p, text.file, m.path)
				}
			}
		}
	}
}

func TestUnknownLicensesAreRefused(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge,\nto any person obtaining a copy"
	for name, c := range map[string]struct {
		files   map[string]string
		license string // empty for an error with want
		want    string
	}{
		"none":         {files: map[string]string{"README.md": mit, "license.go": mit}, want: "no license file"},
		"unknown":      {files: map[string]string{"LICENSE": "Do what you like."}, want: "add it to the table"},
		"second":       {files: map[string]string{"LICENSE": mit, "LICENSE-DATA": "Do what you like."}, want: "LICENSE-DATA"},
		"demanding":    {files: map[string]string{"COPYING": mit + "\nor the GNU General\nPublic License"}, want: "COPYING"},
		"notice alone": {files: map[string]string{"NOTICE": mit}, want: "no license file"},
		"below":        {files: map[string]string{"LICENSE": mit, "a/LICENSE.txt": "SQLite Is Public Domain"}, license: "LicenseRef-SQLite-public-domain AND MIT"},
		"elsewhere":    {files: map[string]string{"LICENSE": mit, "c/LICENSE": "Do what you like."}, license: "MIT"},
	} {
		root := t.TempDir()
		write(t, root, map[string]string{"a/b/code.go": "package b\n"})
		write(t, root, c.files)
		m, err := licensed("example.com/m", "v1.0.0", root, []string{filepath.Join(root, "a", "b")})
		if c.license == "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the error is %v, want %q", name, err, c.want)
			}
		} else if err != nil || m.license != c.license {
			t.Errorf("%s: the license is %q, %v, want %q", name, m.license, err, c.license)
		}
	}
}

func TestPartsAreThoseOfTheProgram(t *testing.T) {
	dir := build(t, checkout(t))
	_, contents := unpack(t, archiveName(), read(t, dir)[archiveName()])
	binary := filepath.Join(t.TempDir(), host.exe("perigee"))
	if err := os.WriteFile(binary, []byte(contents[host.exe("perigee")]), 0o700); err != nil {
		t.Fatal(err)
	}
	listed, err := os.Open(filepath.Join(dir, "perigee_0.1.0_"+host.String()+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer listed.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(listed, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cdx.SpecVersion1_6 || bom.SerialNumber != "" || bom.Metadata.Timestamp != "" {
		t.Errorf("the list has version %v, serial number %q and time %q", bom.SpecVersion, bom.SerialNumber, bom.Metadata.Timestamp)
	}

	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(Toolchain, "go")}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); fields[0] == "dep" {
			want = append(want, "pkg:golang/"+fields[1]+"@"+fields[2])
		}
	}
	var got []string
	for _, part := range *bom.Components {
		got = append(got, part.PackageURL)
		if part.Licenses == nil || len(*part.Licenses) != 1 {
			t.Errorf("%s has no license", part.Name)
		}
	}
	if len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("the list has %q, the program %q", got, want)
	}

	if _, err := sbom("0.1.0", binary, []module{{path: "std", version: strings.TrimPrefix(Toolchain, "go")}}); err == nil {
		t.Error("a list without a module of the program was written")
	}
}
