// Package bundle packs the trace of a call so that it can be given to another person: without
// secrets, and with names in place of the addresses of accounts. It searches the written bundle for
// every known secret, and returns an error if it finds one.
package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/observe/secrets"
	"perigee/internal/observe/trace"
)

// ManifestName is the file that lists all files of a bundle.
const ManifestName = "manifest.json"

// Options are the contents of a bundle.
type Options struct {
	Trace    *trace.Trace
	Secrets  []secrets.Named // that the bundle must not have
	Accounts []string        // further addresses of accounts, which the trace does not name
	Version  string          // of perigee
	Now      time.Time
}

// A Manifest is the content of manifest.json.
type Manifest struct {
	Call    string    `json:"call"`
	Created time.Time `json:"created"`
	Version string    `json:"perigee"`
	Files   []File    `json:"files"`
	// SearchedFor has the names of the secrets that no file has, in any of the forms.
	SearchedFor []Searched `json:"searched_for"`
	Forms       []string   `json:"forms"`
	Accounts    int        `json:"accounts"` // how many were replaced by account-1, account-2 …
}

// A File is one of a bundle.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Searched are secrets of one name.
type Searched struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// forms are those that redact.Stream and Redactor.Deltas find.
var forms = []string{"plain", "JSON escapes", "percent-encoding", "base64", "spelled over several events"}

// Write packs a trace as a gzipped tar archive into a file, which has to be empty, and searches it.
// After an error the file must not be used.
func Write(to *os.File, opts Options) error {
	m := &Manifest{Call: opts.Trace.Meta.ID, Created: opts.Now.UTC().Truncate(time.Second), Version: opts.Version,
		SearchedFor: count(opts.Secrets), Forms: forms, Files: []File{}}
	clean := newCleaner(&opts)
	m.Accounts = len(clean.accounts)
	compressed := gzip.NewWriter(to)
	archive := tar.NewWriter(compressed)
	dir := "perigee-" + m.Call + "/"
	add := func(name string, data []byte) error {
		header := &tar.Header{Name: dir + name, Mode: 0o600, Size: int64(len(data)), ModTime: m.Created, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(data)
		return err
	}
	for _, name := range opts.Trace.Files() {
		data, err := opts.Trace.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			return perigee.Errorf(perigee.ClassNotFound, "the trace directory of call %s was removed meanwhile", m.Call).
				WithHint("traces.keep in the configuration says how much is kept")
		}
		if err != nil {
			return err
		}
		data = clean.file(name, data)
		sum := sha256.Sum256(data)
		m.Files = append(m.Files, File{name, int64(len(data)), hex.EncodeToString(sum[:])})
		if err := add(name, data); err != nil {
			return err
		}
	}
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := errors.Join(add(ManifestName, append(manifest, '\n')), archive.Close(), compressed.Close()); err != nil {
		return err
	}
	return verify(to, &opts)
}

// count returns how many secrets have each name.
func count(list []secrets.Named) []Searched {
	found := []Searched{}
	names := map[string]int{}
	for _, s := range list {
		names[s.Name]++
	}
	for name, n := range names {
		found = append(found, Searched{name, n})
	}
	slices.SortFunc(found, func(a, b Searched) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// verify reads the archive again, and searches it for each secret separately, also in texts that
// are spread over several events.
func verify(file *os.File, opts *Options) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	compressed, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	archive := tar.NewReader(compressed)
	seen := 0
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		data := make([]byte, header.Size)
		if _, err := io.ReadFull(archive, data); err != nil {
			return err
		}
		seen++
		name := path.Base(header.Name)
		var joined [][]byte
		if trace.IsAnswer(name) {
			joined = redact.JoinMembers(data)
		}
		for _, s := range opts.Secrets {
			if has(data, s.Secret) || spells(joined, s.Secret, breaksOff(opts.Trace, name)) {
				return perigee.Errorf(perigee.ClassInternal, "%s would have a secret in it: %s", header.Name, s.Name).
					WithHint("no bundle was written; please report this, without the trace")
			}
		}
	}
	if seen == 0 {
		return perigee.Errorf(perigee.ClassInternal, "the bundle is empty")
	}
	return nil
}

// has searches without an index, independently of the redactor. A secret of less than eight
// characters may be a part of any word, so that only redact finds it where it is one.
func has(data []byte, secret perigee.Secret) bool {
	if value := secret.Reveal(); len(value) >= 8 && bytes.Contains(data, []byte(value)) {
		return true
	}
	return redact.New(secret).Finds(data)
}

// spells reports whether one of the texts that events spell has a secret, or, if they break off,
// ends with the first half of one.
func spells(texts [][]byte, secret perigee.Secret, cut bool) bool {
	value := secret.Reveal()
	half := []byte(value[:(len(value)+1)/2])
	return slices.ContainsFunc(texts, func(text []byte) bool {
		end := text[max(0, len(text)-len(value)):]
		return has(text, secret) || cut && len(value) >= 8 && bytes.Contains(end, half) && bytes.HasPrefix([]byte(value), end[bytes.LastIndex(end, half):])
	})
}

// breaksOff reports whether a file may end in the middle of a secret: the call is open or did not
// succeed, or the file is truncated.
func breaksOff(t *trace.Trace, name string) bool {
	return t.Meta.Outcome != perigee.OutcomeDone || t.Meta.Truncated[name] != ""
}

// A cleaner removes secrets and addresses from the files of a bundle.
type cleaner struct {
	trace    *trace.Trace
	known    *redact.Redactor
	accounts []*redact.Redactor // each replaces one address
}

func newCleaner(opts *Options) *cleaner {
	list := make([]perigee.Secret, len(opts.Secrets))
	for i, s := range opts.Secrets {
		list[i] = s.Secret
	}
	c := &cleaner{trace: opts.Trace, known: redact.New(list...)}
	for i, address := range addresses(opts) {
		c.accounts = append(c.accounts, redact.New(perigee.NewSecret(address)).WithMark(fmt.Sprint("account-", i+1)))
	}
	return c
}

// addresses returns the addresses of accounts, in the order in which the call has tried them. A
// longer one comes before one that it contains.
func addresses(opts *Options) (list []string) {
	add := func(address string) {
		if address != "" && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	for _, t := range opts.Trace.Meta.Tries {
		add(t.Account)
	}
	add(opts.Trace.Meta.Account)
	for _, a := range opts.Accounts {
		add(a)
	}
	slices.SortStableFunc(list, func(a, b string) int {
		if strings.Contains(a, b) || strings.Contains(b, a) {
			return cmp.Compare(len(b), len(a))
		}
		return 0
	})
	return list
}

// file returns the content of a file for the bundle: without known secrets, addresses, and text
// that has the name or form of a credential, such as output of an agent's tools.
func (c *cleaner) file(name string, data []byte) []byte {
	data = c.known.Clean(data)
	if trace.IsAnswer(name) {
		data = c.known.Deltas(data, breaksOff(c.trace, name))
	}
	for _, a := range c.accounts {
		data = a.Clean(data)
	}
	if name != trace.MetaName {
		if data = redact.Content(data); bytes.Contains(data, []byte(redact.Value)) {
			data = bytes.ReplaceAll(data, []byte(redact.Value), []byte(redact.Mark))
		}
	}
	return redact.EmailsIn(data)
}
