package bundle

import "os"

// WriteUncleaned is Write without what removes secrets, so that the search of the archive is tested
// by itself.
func WriteUncleaned(to *os.File, opts Options) error {
	searched := opts
	opts.Secrets = nil
	if err := Write(to, opts); err != nil {
		return err
	}
	return verify(to, &searched)
}
