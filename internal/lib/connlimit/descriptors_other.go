//go:build !unix

package connlimit

func descriptors() uint64 { return 0 }
