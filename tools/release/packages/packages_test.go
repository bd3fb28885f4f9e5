package packages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/tools/release"
)

func sample(format string) release.Package {
	return release.Package{
		Format: format, Arch: "arm", Version: "0.1.0-rc.1", Maintainer: "Ada <ada@example.com>", Homepage: "https://example.com",
		Modified: time.Unix(1700000001, 0),
		Files: []release.PackageFile{
			{Path: "/etc/perigee/config.yaml", Content: []byte("data_dir: /x\n"), Mode: 0o644, Config: true},
			{Path: "/usr/bin/perigee", Content: bytes.Repeat([]byte("program "), 1<<18), Mode: 0o755},
		},
		Scripts: map[string][]byte{"postinstall": []byte("#!/bin/sh\n# after\n"), "preremove": []byte("#!/bin/sh\n# before\n"),
			"postremove": []byte("#!/bin/sh\n# removed\n")},
	}
}

func TestPackagesAreReproducible(t *testing.T) {
	for format, want := range map[string]string{"deb": "perigee_0.1.0~rc.1-1_armhf.deb", "rpm": "perigee-0.1.0~rc.1-1.armv6hl.rpm"} {
		name, first, err := Pack(sample(format))
		if err != nil || name != want {
			t.Fatal(name, err)
		}
		t.Setenv("TMPDIR", t.TempDir())
		t.Setenv("TZ", "Asia/Kolkata")
		t.Setenv("SOURCE_DATE_EPOCH", "1")
		time.Local = time.FixedZone("far", 11*3600)
		if _, second, err := Pack(sample(format)); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: the packages have %d and %d bytes and differ, %v", format, len(first), len(second), err)
		}
	}
	if _, _, err := Pack(sample("msi")); err == nil {
		t.Error("a package of an unknown format was written")
	}
}

// TestToolsReadThePackages compares with what dpkg-deb and rpm read, where they are installed.
func TestToolsReadThePackages(t *testing.T) {
	read := func(t *testing.T, format string, command ...string) string {
		t.Helper()
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Skipf("%s is not installed", command[0])
		}
		_, content, err := Pack(sample(format))
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(t.TempDir(), "perigee."+format)
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], at)...)
		cmd.Env = append(os.Environ(), "TZ=UTC")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	has := func(t *testing.T, got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q is not in\n%s", w, got)
			}
		}
	}
	t.Run("deb", func(t *testing.T) {
		has(t, read(t, "deb", "dpkg-deb", "--field"), "Version: 0.1.0~rc.1-1\n", "Architecture: armhf\n", "Maintainer: Ada <ada@example.com>\n", "Recommends: ca-certificates\n")
		has(t, read(t, "deb", "dpkg-deb", "--contents"), "-rwxr-xr-x root/root   2097152 2023-11-14 22:13 ./usr/bin/perigee\n", "drwxr-xr-x root/root         0 2023-11-14 22:13 ./usr/bin/\n")
		has(t, read(t, "deb", "dpkg-deb", "--info"), "conffiles", "postinst", "prerm", "postrm", "md5sums")
	})
	t.Run("rpm", func(t *testing.T) {
		has(t, read(t, "rpm", "rpm", "-qip"), "Version     : 0.1.0~rc.1\n", "Architecture: armv6hl\n", "Build Host  : localhost\n", "License     : Apache-2.0\n")
		has(t, read(t, "rpm", "rpm", "-qlvp"), "-rwxr-xr-x    1 root     root                  2097152 Nov 14  2023 /usr/bin/perigee\n", "Nov 14  2023 /etc/perigee\n")
		has(t, read(t, "rpm", "rpm", "-qp", "--configfiles"), "/etc/perigee/config.yaml\n")
		has(t, read(t, "rpm", "rpm", "-qp", "--scripts"), "# after", "# before", "# removed")
	})
}
