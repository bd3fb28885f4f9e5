//go:build !unix

package truststore

func keepOwner(string, string) error { return nil }

// ForeignTo is about users of Unix.
func ForeignTo(string) (uid int, foreign bool) { return 0, false }
