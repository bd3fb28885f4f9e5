package bundle

import "os"

// WriteUncleaned is Write without what removes secrets, so that the search of the archive is tested
// by itself.
func WriteUncleaned(to *os.File, opts Options) (*Manifest, error) {
	searched := opts
	opts.Secrets = nil
	if m, err := Write(to, opts); err != nil {
		return m, err
	}
	return nil, verify(to, &searched)
}
