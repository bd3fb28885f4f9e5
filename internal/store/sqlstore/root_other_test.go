//go:build !unix

package sqlstore

func dropRoot() error { return nil }
