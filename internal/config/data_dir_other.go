//go:build !unix

package config

// canWrite cannot be told without writing here.
func canWrite(string) bool { return true }
