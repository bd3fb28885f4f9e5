package simulator

import (
	"cmp"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/rules"
)

// defaultPace is the pace of the fault slow.
const defaultPace = 50 * time.Millisecond

const outdatedText = "This version of Antigravity is no longer supported. Please update to receive the latest features!"

// replyFaults claims every fault that shapes the answer; several may work together.
func (x *exchange) replyFaults() map[string]*Fault {
	struck := map[string]*Fault{}
	for _, fault := range x.due {
		at := faultKinds[fault.Do].stage
		if at != stageReply && (fault.Do != "reset" || fault.AfterChunks == 0) {
			continue
		}
		if _, twice := struck[fault.Do]; !twice && x.server.faults.claim(fault) {
			struck[fault.Do] = &fault.Fault
			x.call.Fault = fault.Do
		}
	}
	x.gzip = struck["gzip"] != nil
	return struck
}

// strikeSmall lets the faults from a stage on happen to a call that is not about content. Of those
// that shape an answer only a few make sense there; the rest waits for a call that it is meant for.
func (x *exchange) strikeSmall(from stage) bool {
	if x.strike(from, stageQuota) {
		return true
	}
	for _, fault := range x.due {
		switch fault.Do {
		case "slow", "empty_200", "hang_after_headers":
		default:
			continue
		}
		if !x.server.faults.claim(fault) {
			continue
		}
		x.call.Fault = fault.Do
		switch fault.Do {
		case "slow":
			return x.server.sleep(x.r.Context(), cmp.Or(time.Duration(fault.Delay), defaultPace)) != nil
		case "empty_200":
			writeJSON(x.w, http.StatusOK, struct{}{})
		case "hang_after_headers":
			x.hangAfterHeaders(time.Duration(fault.Delay), false)
		}
		return true
	}
	return false
}

// answer composes the reply and sends it, whole or as a stream.
func (x *exchange) answer(surface rules.Surface, model rules.Model, parsed *rules.Parsed, stream, outdated bool) {
	q := x.server.ask(surface, model, parsed, x.body)
	if surface == rules.Vertex {
		q.signer = x.server.vertexSigner()
	}
	q.search = x.search
	r := q.compose()
	faults := x.replyFaults()
	if fault := faults["error_in_200"]; fault != nil {
		r.candidates = []candidate{{parts: []part{textPart(cmp.Or(fault.Message, outdatedText))}, finish: "STOP"}}
	} else if outdated {
		x.call.Rule = "client.version"
		r.candidates = []candidate{{parts: []part{textPart(outdatedText)}, finish: "STOP"}}
	}
	r.apply(faults)

	count := counter{prompt: promptTokens(parsed), cached: x.server.cache.cached(model.ID, parsed),
		thoughtsCountedAsCandidates: x.server.switches.UsageCandidatesIncludeThoughts}
	head := response{ModelVersion: model.ID, ResponseID: q.responseID()}
	pack := func(r response) []byte { return encode(r) }
	if surface == rules.Vertex {
		count.traffic = "ON_DEMAND"
	}
	if surface != rules.V1Beta {
		head.CreateTime = x.server.now().UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	if surface == rules.V1Internal {
		trace := q.traceID()
		x.w.Header().Set("X-Cloudaicompanion-Trace-Id", trace)
		pack = func(r response) []byte { return encode(wrapped{r, trace}) }
	}
	x.w.Header().Set("Server-Timing", "gfet4t7; dur=1")

	switch {
	case faults["hang_after_headers"] != nil:
		x.hangAfterHeaders(time.Duration(faults["hang_after_headers"].Delay), stream)
	case stream:
		var chunks []completion.Event
		if faults["empty_200"] == nil {
			for _, chunk := range q.responses(r, count, head) {
				chunks = append(chunks, completion.Event{Data: pack(chunk)})
			}
			if faults["duplicate_finish"] != nil {
				chunks = append(chunks, chunks[len(chunks)-1])
			}
		}
		x.stream(chunks, r.delivery.pace, faults)
	case faults["empty_200"] != nil:
		x.sendWhole(pack(response{}), faults)
	default:
		x.sendWhole(pack(q.whole(r, count, head)), faults)
	}
}

// apply lets faults change the content and the delivery of the reply.
func (r *reply) apply(faults map[string]*Fault) {
	if faults["late_usage"] != nil {
		r.delivery.usage = usageLate
	}
	if faults["usage_missing"] != nil {
		r.delivery.usage = usageNone
	}
	if slow := faults["slow"]; slow != nil {
		r.delivery.pace = cmp.Or(time.Duration(slow.Delay), defaultPace)
	}
	r.delivery.noFinish = faults["no_finish"] != nil
	r.delivery.cumulativeThoughts = faults["cumulative_thoughts"] != nil
	for _, c := range r.candidates {
		if faults["missing_args"] != nil {
			withoutArgs(c.parts)
		}
		if faults["split_utf8"] != nil {
			makeMultibyte(c.parts)
		}
	}
}

func (x *exchange) hangAfterHeaders(d time.Duration, stream bool) {
	x.startAnswer(stream)
	_ = http.NewResponseController(x.w).Flush()
	x.hang(d)
}

// framing is the form of a streamed answer.
type framing int

const (
	framingEvents framing = iota // server-sent events
	framingArray                 // a JSON array
	framingLines                 // a JSON object per line
)

func (x *exchange) startAnswer(stream bool) {
	switch {
	case stream && x.framing == framingEvents:
		x.w.Header().Set("Content-Type", x.eventStream())
	case stream && x.framing == framingLines:
		x.w.Header().Set("Content-Type", "application/x-ndjson")
	case x.framing == framingLines:
		x.w.Header().Set("Content-Type", jsonUTF8)
	case x.wire != nil:
		x.w.Header().Set("Content-Type", "application/json")
	default:
		x.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	}
	if x.gzip {
		x.w.Header().Set("Content-Encoding", "gzip")
		x.packed = gzip.NewWriter(x.w)
	}
	x.w.WriteHeader(http.StatusOK)
}

func (x *exchange) eventStream() string {
	if x.wire != nil {
		return "text/event-stream; charset=utf-8"
	}
	return "text/event-stream"
}

// sendWhole writes an answer that is not streamed; the faults that need a stream do their nearest.
func (x *exchange) sendWhole(body []byte, faults map[string]*Fault) {
	if fault := faults["error_mid_stream"]; fault != nil {
		body = x.errorChunks(fault)[0].Data
	}
	if faults["invalid_json_chunk"] != nil {
		body = body[:len(body)/2]
	}
	if slow := faults["slow"]; slow != nil && x.server.sleep(x.r.Context(), cmp.Or(time.Duration(slow.Delay), defaultPace)) != nil {
		return
	}
	x.startAnswer(false)
	if faults["reset"] != nil {
		x.write(body[:len(body)/2], false)
		x.reset()
		return
	}
	x.write(append(body, '\n'), faults["split_utf8"] != nil)
	x.endAnswer()
}

// emitter writes the chunks of a stream.
type emitter struct {
	x     *exchange
	eol   string
	split bool
	sent  int
}

// stream writes the chunks in the framing of the exchange. Lines end with CRLF at Google's endpoints,
// and with LF elsewhere.
func (x *exchange) stream(chunks []completion.Event, pace time.Duration, faults map[string]*Fault) {
	e := &emitter{x: x, eol: "\r\n", split: faults["split_utf8"] != nil}
	if faults["lf_only"] != nil || x.wire != nil && faults["crlf"] == nil {
		e.eol = "\n"
	}
	x.startAnswer(true)
	defer x.endAnswer()
	if fault := faults["comments_only"]; fault != nil && x.framing == framingEvents && !e.comments(fault) {
		return
	}
	if x.framing == framingArray {
		x.write([]byte("["), false)
	}
	cut := func(name string, sent int) *Fault {
		if fault := faults[name]; fault != nil && sent == min(fault.AfterChunks, len(chunks)) {
			return fault
		}
		return nil
	}
	for i := range len(chunks) + 1 {
		if cut("reset", i) != nil {
			x.reset()
			return
		}
		if fault := cut("error_mid_stream", i); fault != nil {
			for _, chunk := range x.errorChunks(fault) {
				e.emit(chunk, false)
			}
			break
		}
		if cut("invalid_json_chunk", i) != nil {
			e.emit(completion.Event{Name: nameOf(chunks, i), Data: []byte(`{"response": {"candidates": [`)}, false)
		}
		if i == len(chunks) {
			break
		}
		if i > 0 && pace > 0 && x.server.sleep(x.r.Context(), pace) != nil {
			return
		}
		e.emit(chunks[i], i == len(chunks)-1 && faults["missing_newline"] != nil)
	}
	if x.framing == framingArray {
		x.write([]byte("]"+e.eol), false)
	}
}

// emit writes one chunk; bare leaves its line end away.
func (e *emitter) emit(chunk completion.Event, bare bool) {
	var line strings.Builder
	switch e.x.framing {
	case framingEvents:
		if chunk.Name != "" {
			line.WriteString("event: " + chunk.Name + e.eol)
		}
		if chunk.Comment {
			line.WriteString(": ")
		} else {
			line.WriteString("data: ")
		}
		line.Write(chunk.Data)
		if !bare {
			line.WriteString(e.eol + e.eol)
		}
	case framingArray:
		if e.sent > 0 {
			line.WriteString("," + e.eol)
		}
		line.Write(chunk.Data)
	case framingLines:
		line.Write(chunk.Data)
		if !bare {
			line.WriteString(e.eol)
		}
	}
	e.sent++
	e.x.sent = e.sent
	e.x.write([]byte(line.String()), e.split)
}

// write sends bytes at once. split ends a write inside every character of more than one byte.
func (x *exchange) write(b []byte, split bool) {
	out := io.Writer(x.w)
	if x.packed != nil {
		out = x.packed
	}
	for split {
		at := slices.IndexFunc(b, func(c byte) bool { return c >= utf8.RuneSelf })
		if at < 0 {
			break
		}
		_, size := utf8.DecodeRune(b[at:])
		out.Write(b[:at+1])
		x.flush()
		out.Write(b[at+1 : at+size]) // sent with the next bytes
		b = b[at+size:]
	}
	out.Write(b)
	x.flush()
}

func (x *exchange) flush() {
	if x.packed != nil {
		_ = x.packed.Flush()
	}
	_ = http.NewResponseController(x.w).Flush()
}

// endAnswer writes the end of a body that is compressed.
func (x *exchange) endAnswer() {
	if x.packed != nil && x.cut == nil {
		_ = x.packed.Close()
	}
}

// comments sends only comments for the time of the fault, ten in all. False means that the client
// went away.
func (e *emitter) comments(fault *Fault) bool {
	const count = 10
	for range count {
		e.x.write([]byte(": keep-alive"+e.eol+e.eol), false)
		if e.x.server.sleep(e.x.r.Context(), cmp.Or(time.Duration(fault.Delay), time.Minute)/count) != nil {
			return false
		}
	}
	return true
}

// nameOf returns the name of the event at a place of a stream, or of the last one.
func nameOf(chunks []completion.Event, at int) string {
	if len(chunks) == 0 {
		return ""
	}
	return chunks[min(at, len(chunks)-1)].Name
}

// errorChunks returns the events of an error inside an answer.
func (x *exchange) errorChunks(fault *Fault) []completion.Event {
	e := x.faultError(fault)
	if x.wire != nil {
		return x.wire.streamProblem(x, e)
	}
	return []completion.Event{{Data: encode(e.body())}}
}
