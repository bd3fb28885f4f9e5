//go:build !unix

package truststore

func keepOwner(string, string) error { return nil }

// ForeignTo returns false: it applies to users of Unix.
func ForeignTo(string) (uid int, foreign bool) { return 0, false }
