package server

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"perigee"
	shared "perigee/internal/dialect"
	"perigee/internal/server/mount"
)

// An ImageStore keeps images. Open returns fs.ErrNotExist for an image that does not exist or has
// expired.
type ImageStore interface {
	Save(mime string, data []byte) (id string, err error)
	Open(id string) (image *os.File, mime string, err error)
}

// imagePath is where images are found, each under its id.
const imagePath = "/v1/images/"

// imagePoint serves the images of a store, which may be nil.
func imagePoint(store ImageStore) mount.Point {
	return mount.Methods{http.MethodGet: func(w http.ResponseWriter,
		r *http.Request) error {
		return serveImage(store, w, r)
	}}.At(imagePath+"*", mount.Client)
}

func serveImage(store ImageStore, w http.ResponseWriter, r *http.Request) error {
	if store == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "no images are kept here")
	}
	f, mime, err := store.Open(mount.Wildcard(r))
	if errors.Is(err, fs.ErrNotExist) {
		return perigee.Errorf(perigee.ClassNotFound, "no image %s", mount.Shorten(mount.Wildcard(r))).
			WithHint("images are kept for at most 7 days; generate it again")
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", mime)
	h.Set("X-Content-Type-Options", "nosniff")
	// Scripts in an image do not run.
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=86400, immutable")
	if mime == "application/octet-stream" {
		h.Set("Content-Disposition", "attachment")
	}
	http.ServeContent(w, r, "", info.ModTime(), f)
	return nil
}

// Limits of the images stored for one answer. Further images are inlined in the answer, so that one
// answer cannot displace all other images.
const (
	maxImages = 100
	maxBytes  = 64 << 20
)

var errTooMany = errors.New("the answer has more images than are kept of one answer")

// An imageKeeper stores the images of one answer. It is for one goroutine.
type imageKeeper struct {
	Store  ImageStore
	Logger *slog.Logger
	Call   string           // id of the call
	Log    *perigee.CallLog // gets the notes of Keep
	Base   string           // the prefix of links; see baseURL

	images int
	bytes  int64
	warned bool // that the answer has too many
}

// Keep stores an image and returns its link, or "" if the image is to be inlined in the answer. It
// adds a note to the record, and to the response head unless that has been sent, as in a stream
// that begins with text.
func (k *imageKeeper) Keep(mime, data string) string {
	id, err := k.save(mime, data)
	if err != nil {
		if !errors.Is(err, errTooMany) || !k.warned {
			k.Log.NoteOnce(perigee.Note{Action: perigee.NoteMapped, Subject: "image to a data URI"})
		}
		k.logInlined(err)
		return ""
	}
	k.Log.NoteOnce(perigee.Note{Action: perigee.NoteMapped, Subject: "image to " + imagePath + id})
	return k.Base + imagePath + id
}

// Link stores an image and returns its link. Where that fails the link is the data itself.
func (k *imageKeeper) Link(blob *perigee.Blob) string {
	id, err := k.save(blob.MIME, blob.Data)
	if err != nil {
		k.logInlined(err)
		return shared.DataURL(blob)
	}
	return k.Base + imagePath + id
}

// logInlined logs why an image is inlined in the answer; once for an answer that has too many.
func (k *imageKeeper) logInlined(err error) {
	switch {
	case !errors.Is(err, errTooMany):
		k.Logger.Error("an image could not be kept", "call", k.Call, "error", err)
	case !k.warned:
		k.warned = true
		k.Logger.Warn("images of an answer are not kept: it has too many", "call", k.Call, "images", k.images, "bytes", k.bytes)
	}
}

func (k *imageKeeper) save(mime, data string) (id string, err error) {
	size := int64(base64.StdEncoding.DecodedLen(len(data)))
	if k.images >= maxImages || k.bytes+size > maxBytes {
		return "", errTooMany
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", err
	}
	if id, err = k.Store.Save(mime, raw); err == nil {
		k.images++
		k.bytes += size
	}
	return id, err
}

// baseURL returns the base URL under which the client has reached the server. It is empty if the
// Host cannot be used in a link; links are then relative.
func baseURL(r *http.Request) string {
	plain := strings.Trim(r.Host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_[]") == ""
	switch {
	case r.Host == "" || !plain:
		return ""
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
