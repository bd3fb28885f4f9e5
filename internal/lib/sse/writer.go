package sse

import "bytes"

// KeepAlive is a comment, which readers skip, and the blank line after which they look at it.
const KeepAlive = ": keep-alive\n\n"

// AppendEvent appends one event without a name. Line ends in data (LF, CRLF or CR) start a new data
// line, which readers join with LF. Google's streams end lines with CRLF.
func AppendEvent(dst, data []byte, crlf bool) []byte {
	end := "\n"
	if crlf {
		end = "\r\n"
	}
	for {
		dst = append(dst, "data: "...)
		i := bytes.IndexByte(data, '\n')
		if cr := bytes.IndexByte(data[:max(i, 0)], '\r'); i >= 0 && cr >= 0 {
			i = cr
		} else if i < 0 {
			i = bytes.IndexByte(data, '\r')
		}
		if i < 0 {
			return append(append(append(dst, data...), end...), end...)
		}
		dst = append(append(dst, data[:i]...), end...)
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}
