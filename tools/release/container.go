package release

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// collect collects what dist/Containerfile copies for one platform.
func (r *release) collect(p Platform, files []file) {
	if p.OS != "linux" {
		return
	}
	for _, f := range files {
		if f.name == "perigee" || f.name == "NOTICE" {
			r.images = append(r.images, file{name: p.Arch + "/" + f.name, content: f.content, program: f.program})
		}
	}
}

// container writes the archive that an image is built from.
func (r *release) container() error {
	if len(r.images) == 0 {
		return nil
	}
	files := []file{{name: "ca-certificates.crt", content: certificates()}, {name: "data/"}}
	for _, name := range []string{"dist/Containerfile", "dist/config.yaml", "LICENSE"} {
		content, err := os.ReadFile(filepath.Join(r.Source, name))
		if err != nil {
			return err
		}
		files = append(files, file{name: filepath.Base(name), content: content})
	}
	dir := r.dir("container")
	content, err := tarred(dir, append(files, r.images...), r.time)
	if err != nil {
		return err
	}
	return r.add(dir+".tar.gz", content)
}

// certificates returns the authorities that Mozilla trusts, in PEM form. They come from a Go module,
// because those of this machine would differ from those of another. An authority that is trusted for
// some certificates only is left out: a file cannot express that.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return out.Bytes()
}
