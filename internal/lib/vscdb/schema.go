package vscdb

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// errSchema means that a database is not an editor's, which has a schema that fits into the first
// page.
var errSchema = errors.New("it is not a database of an editor: its schema does not fit into one page")

// Offsets of the file formats, https://sqlite.org/fileformat2.html.
const (
	schemaPage  = 100  // where the b-tree of the schema begins in the first page: its kind
	leafPage    = 0x0d // the kind of one that has no pages below it
	logHead     = 32
	logPageSize = 8 // in logHead: the size of a page
	frameHead   = 24
)

// checkSchema refuses a database with a schema of more than one page, in the file or in its log,
// before SQLite parses it: the time for that grows with the square of its size, and it cannot be
// interrupted.
func checkSchema(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := checkLeaf(f, schemaPage); err != nil {
		return err
	}
	log, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	return checkLog(log)
}

// checkLog looks at each version of the first page in a log.
func checkLog(log io.ReaderAt) error {
	var head [logHead]byte
	if _, err := log.ReadAt(head[:], 0); err == io.EOF {
		return nil // SQLite does not read it either
	} else if err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(head[logPageSize:]))
	if size < 512 || size > 65536 {
		return nil // nor this
	}
	var frame [4]byte // its page
	for at := int64(logHead); ; at += frameHead + size {
		_, err := log.ReadAt(frame[:], at)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if binary.BigEndian.Uint32(frame[:]) != 1 {
			continue
		}
		if err := checkLeaf(log, at+frameHead+schemaPage); err != nil {
			return err
		}
	}
}

func checkLeaf(r io.ReaderAt, at int64) error {
	var kind [1]byte
	if _, err := r.ReadAt(kind[:], at); err != nil && err != io.EOF {
		return err
	}
	if kind[0] != leafPage && kind[0] != 0 { // of a database without a schema
		return errSchema
	}
	return nil
}
