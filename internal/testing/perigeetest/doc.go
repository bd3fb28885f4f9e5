// Package perigeetest is what tests of several packages share: a fixed clock and ids, a network of
// pipes for synctest, a provider that answers by script, and the runner of transcripts. A
// transcript is a txtar file that shows one conversation at the wire, so that a reader of the API's
// documentation can review what perigee does. Only tests import this package.
//
// The parts of a transcript (the text before the first part describes the file):
//
//	-- config --             YAML; without it there is one gemini upstream called studio, see DefaultConfig
//	-- request --            what the client sends: request line, headers, blank line, body
//	-- upstream.request --   what perigee sends on
//	-- upstream.response --  what the provider answers: status line, headers, blank line, body
//	-- response --           what the client gets
//	-- call --               the row that was recorded, without what is empty
//
// A second request is request.2, with its response.2 and call.2; upstream parts count for
// themselves, in order of arrival, except that a request with the request line of an
// upstream.request gets the response beside it. upstream.request, response and call are
// expectations, which a Runner with Update writes anew.
//
// How bytes are written in a part:
//
//   - Heads have plain line ends. In bodies a carriage return shows as ␍ and any byte that is not printable UTF-8 as
//     its hexadecimal digits, ⟪ff⟫. The last newline of a part belongs to the file, not to the body; hence the empty
//     line at the end of event streams.
//   - Host, Content-Length, Connection and Date are left out and filled in, unless a request sets them. Of responses
//     only the headers that matter are shown.
//   - {{provider}} is the scripted provider's URL, {{provider.addr}} its host and port, {{perigee}}
//     perigee's own. Nothing listens at http://127.0.0.1:1.
//
// A line that starts with an exclamation mark is a stage direction; in the middle of a line it is
// written ⟪pause⟫:
//
//   - !pause (upstream.response): the provider waits until the client has got all that it can have got by now. The
//     response shows !pause at that place, which proves that nothing was held back.
//   - !reset (upstream.response): the connection breaks. In a response: the client saw it break.
//   - !hang (upstream.response): the provider sends nothing more until perigee gives up.
//   - !gzip (request, as the first line of the body): the body that follows is compressed on its way.
//   - !advance 61s (request, before the request line): the clock moves first.
package perigeetest
