// Package dialect is what the dialects of clients share. The dialects themselves are the packages
// below it: each decodes the requests of one API and encodes events as its answers.
package dialect
