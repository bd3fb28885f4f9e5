// Package trace keeps a directory of files for each call: what the client sent, what was sent to
// providers, what they answered, and what the client got, without secrets. A Store writes them
// while calls run. Open and Has read them, with or without a Store.
//
// docs/traces.md describes the files.
package trace
