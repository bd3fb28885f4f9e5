package httpapi

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"perigee"
	"perigee/internal/dialect/media"
)

// An ImageStore keeps what models draw, for clients that get a link instead. Open returns fs.ErrNotExist for what is not,
// or no longer, there.
type ImageStore interface {
	Save(mime string, data []byte) (id string, err error)
	Open(id string) (image *os.File, mime string, err error)
}

// What one answer may put away. The rest of its images stand in the answer itself, so that one answer cannot displace the images
// of all others.
const (
	maxKeptImages     = 100
	maxKeptImageBytes = 64 << 20
)

// keptImages counts what an answer has put away.
type keptImages struct {
	images int
	bytes  int64
	told   bool // that some were not
}

var errManyImages = errors.New("the answer has more images than are kept of one answer")

// imagePath is where images are found, each under its id.
const imagePath = "/v1/images/"

// image answers GET /v1/images/{id}.
func (c *call) image() error {
	if c.opts.Images == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "no images are kept here")
	}
	f, mime, err := c.opts.Images.Open(c.rest)
	if errors.Is(err, fs.ErrNotExist) {
		return perigee.Errorf(perigee.ClassNotFound, "no image %s", shorten(c.rest)).WithNext("images are kept for a few days; have it drawn again")
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", mime)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox") // whatever a model drew, it runs nothing here
	h.Set("Cache-Control", "private, max-age=86400, immutable")
	if mime == "application/octet-stream" {
		h.Set("Content-Disposition", "attachment")
	}
	// A client that does not read is given up, as with every answer; not every writer can.
	patience := writeLimit + time.Duration(info.Size()/minRate)*time.Second
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(patience))
	c.wrote = true
	http.ServeContent(c.w, c.r, "", info.ModTime(), f)
	return nil
}

// keepImages returns the function that puts an image away and says where the client finds it. What it did goes into notes:
// from there into the header as long as that has not been sent, and into the record always. A stream that begins with text
// has sent its head when the image comes, so there only the record has the note, and the client has the link itself.
func (c *call) keepImages(notes *perigee.LateNotes) func(mime, data string) string {
	return func(mime, data string) string {
		id, err := c.saveImage(mime, data)
		if err != nil {
			if !errors.Is(err, errManyImages) || !c.kept.told {
				notes.Add(perigee.Note{Action: perigee.NoteMapped, Subject: "image to a data URI"})
			}
			c.notKept(err)
			return ""
		}
		notes.Add(perigee.Note{Action: perigee.NoteMapped, Subject: "image to " + imagePath + id})
		return baseURL(c.r) + imagePath + id
	}
}

// imageLink puts a picture away and says where the client finds it. Where that fails the data itself stands in the link.
func (c *call) imageLink(blob *perigee.Blob) string {
	id, err := c.saveImage(blob.MIME, blob.Data)
	if err != nil {
		c.notKept(err)
		return media.URL(blob)
	}
	return baseURL(c.r) + imagePath + id
}

// notKept logs why an image stands in the answer itself; once for an answer that has too many.
func (c *call) notKept(err error) {
	switch {
	case !errors.Is(err, errManyImages):
		c.opts.Logger.Error("an image could not be kept", "call", c.id, "error", err)
	case !c.kept.told:
		c.kept.told = true
		c.opts.Logger.Warn("images of an answer are not kept: it has too many", "call", c.id, "images", c.kept.images, "bytes", c.kept.bytes)
	}
}

func (c *call) saveImage(mime, data string) (id string, err error) {
	size := int64(base64.StdEncoding.DecodedLen(len(data)))
	if c.kept.images >= maxKeptImages || c.kept.bytes+size > maxKeptImageBytes {
		return "", errManyImages
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", err
	}
	if id, err = c.opts.Images.Save(mime, raw); err == nil {
		c.kept.images++
		c.kept.bytes += size
	}
	return id, err
}

// baseURL is where the client has reached us, in its own words. It is empty when those would not do in a link, which then
// counts from wherever the client is.
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
