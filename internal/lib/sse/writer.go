package sse

import "bytes"

// AppendEvent appends one event. Line ends in data (LF, CRLF or CR) start a new data line, which
// readers join with LF. Without a name there is no event line; a name must not have line ends in
// it. Google's streams end lines with CRLF.
func AppendEvent(dst []byte, name string, data []byte, crlf bool) []byte {
	end := ending(crlf)
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, end...)
	}
	dst = appendLines(dst, "data: ", data, end)
	return append(dst, end...)
}

// AppendComment appends a comment, which readers skip, and the blank line that makes them look at
// it.
func AppendComment(dst []byte, text string, crlf bool) []byte {
	end := ending(crlf)
	dst = appendLines(dst, ": ", []byte(text), end)
	return append(dst, end...)
}

func ending(crlf bool) string {
	if crlf {
		return "\r\n"
	}
	return "\n"
}

func appendLines(dst []byte, prefix string, text []byte, end string) []byte {
	for {
		dst = append(dst, prefix...)
		i := bytes.IndexByte(text, '\n')
		if cr := bytes.IndexByte(text[:max(i, 0)], '\r'); i >= 0 && cr >= 0 {
			i = cr
		} else if i < 0 {
			i = bytes.IndexByte(text, '\r')
		}
		if i < 0 {
			dst = append(dst, text...)
			return append(dst, end...)
		}
		dst = append(dst, text[:i]...)
		dst = append(dst, end...)
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}
