// Package trace writes a directory of files for each call: the client's request, the requests to
// providers, their answers, and the client's answer, without secrets. A Store writes them while
// calls run. Open and Has read them, with or without a Store.
//
// docs/traces.md describes the files.
package trace
