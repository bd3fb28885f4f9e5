//go:build !unix

package oauth

import "io/fs"

// checkOwner accepts everything: the usual places belong to the user or to administrators here.
func checkOwner(fs.FileInfo) error { return nil }
