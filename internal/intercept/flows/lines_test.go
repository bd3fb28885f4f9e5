package flows

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

var someFlows = []Flow{
	{Method: "POST", URL: "https://x.example/v1/models/gemini-3-flash:streamGenerateContent?alt=sse", Status: 200, RequestBytes: 1234, ResponseBytes: 45678,
		FirstByteMS: 812.4, DurationMS: 6100, HTTP: "HTTP/2.0"},
	{Method: "GET", URL: "https://x.example/\x1b[31m<a>", Status: 404, ResponseBytes: 9, FirstByteMS: 0.4, DurationMS: 0.5, HTTP: "HTTP/1.1"},
	{Method: "GET", URL: "https://y.example/", DurationMS: 30, HTTP: "HTTP/1.1", Error: "the connection of the client was closed"},
	{Method: "CONNECT", URL: "z.example:443", Status: 200, RequestBytes: 600, ResponseBytes: 7 << 20, DurationMS: 61000, HTTP: "HTTP/1.1"},
}

func noWidth() int { return 0 }

func TestLinesForPeopleAndPrograms(t *testing.T) {
	for _, c := range []struct {
		name    string
		options LinesOptions
		want    string
	}{
		{"people", LinesOptions{Width: noWidth}, `
13:04:05  200    1.2 KiB   44.6 KiB    812ms     6.1s  HTTP/2.0  POST    https://x.example/v1/models/gemini-3-flash:streamGenerateContent?alt=sse
13:04:05  404        0 B        9 B    0.4ms    0.5ms  HTTP/1.1  GET     https://x.example/?[31m<a>
13:04:05  ---        0 B        0 B        -     30ms  HTTP/1.1  GET     https://y.example/  the connection of the client was closed
13:04:05  200      600 B      7 MiB        -    1m01s  HTTP/1.1  CONNECT z.example:443
`},
		{"terminal", LinesOptions{Colour: true, Width: func() int { return 120 }}, `
^[2m13:04:05^[0m  ^[32m200^[0m    1.2 KiB   44.6 KiB    812ms     6.1s  HTTP/2.0  POST    https://x.example/v1/models/gemini-3-flash:str…
^[2m13:04:05^[0m  ^[33m404^[0m        0 B        9 B    0.4ms    0.5ms  HTTP/1.1  GET     https://x.example/?[31m<a>
^[2m13:04:05^[0m  ^[31m---^[0m        0 B        0 B        -     30ms  HTTP/1.1  GET     https://y.example/  ^[31mthe connection of the client was closed^[0m
^[2m13:04:05^[0m  ^[2m200^[0m      600 B      7 MiB        -    1m01s  HTTP/1.1  CONNECT z.example:443
`},
		{"narrow terminal", LinesOptions{Width: func() int { return 80 }}, `
13:04:05  200   44.6 KiB     6.1s  POST    https://x.example/v1/models/gemini-3…
13:04:05  404        9 B    0.5ms  GET     https://x.example/?[31m<a>
13:04:05  ---        0 B     30ms  GET     https://y.example/  the connection of the client was closed
13:04:05  200      7 MiB    1m01s  CONNECT z.example:443
`},
		{"programs", LinesOptions{JSON: true}, `
{"time":"2026-11-16T12:04:05Z","method":"POST","url":"https://x.example/v1/models/gemini-3-flash:streamGenerateContent?alt=sse","status":200,"request_bytes":1234,"response_bytes":45678,"first_byte_ms":812.4,"duration_ms":6100,"http":"HTTP/2.0"}
{"time":"2026-11-16T12:04:05Z","method":"GET","url":"https://x.example/\u001b[31m<a>","status":404,"request_bytes":0,"response_bytes":9,"first_byte_ms":0.4,"duration_ms":0.5,"http":"HTTP/1.1"}
{"time":"2026-11-16T12:04:05Z","method":"GET","url":"https://y.example/","status":0,"request_bytes":0,"response_bytes":0,"first_byte_ms":0,"duration_ms":30,"http":"HTTP/1.1","error":"the connection of the client was closed"}
{"time":"2026-11-16T12:04:05Z","method":"CONNECT","url":"z.example:443","status":200,"request_bytes":600,"response_bytes":7340032,"first_byte_ms":0,"duration_ms":61000,"http":"HTTP/1.1"}
`},
	} {
		var out buffer
		c.options.Out, c.options.Zone = &out, time.FixedZone("", 3600)
		l := NewLines(c.options)
		for _, f := range someFlows {
			f.Time = time.Date(2026, 11, 16, 13, 4, 5, 0, c.options.Zone)
			l.add(f)
		}
		if missed := l.Close(time.Minute); missed != 0 {
			t.Errorf("%s: %d missed", c.name, missed)
		}
		if got := "\n" + strings.ReplaceAll(out.String(), "\x1b[", "^["); got != c.want {
			t.Errorf("%s: got%s\nwant%s", c.name, got, c.want)
		}
	}
}

// Flows do not wait for a reader that has stopped, and one that is gone is reported.
func TestReadersOfLinesHoldNothingUp(t *testing.T) {
	reader, writer := io.Pipe()
	l := NewLines(LinesOptions{Out: writer, JSON: true})
	for range lineQueue + 10000 {
		l.add(someFlows[0])
	}
	if missed := l.Close(time.Millisecond); missed < lineQueue {
		t.Errorf("%d of %d lines were not written", missed, lineQueue+10000)
	}
	l.add(someFlows[0])
	_ = reader.CloseWithError(errors.New("gone"))
	await.Receive(t, l.ended, "the end of the lines")

	reader, writer = io.Pipe()
	l = NewLines(LinesOptions{Out: writer, Width: noWidth, Zone: time.UTC})
	_ = reader.Close()
	for range 3 {
		l.add(someFlows[0])
	}
	await.Receive(t, l.Broken(), "the broken pipe")
	l.Close(time.Minute)
}
